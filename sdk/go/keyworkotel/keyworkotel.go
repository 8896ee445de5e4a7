// Package keyworkotel carries OpenTelemetry's trace context from where a job is submitted to where it runs, and runs
// each handler in a span there. It is a module of its own, so that programs without OpenTelemetry do not pull it in.
//
//	tracing := keyworkotel.New(keyworkotel.Options{})
//	client, err := keywork.NewClient(keywork.ClientOptions{
//		SubmitInterceptors: []keywork.SubmitInterceptor{tracing.SubmitInterceptor()},
//	})
//	worker := keywork.NewWorker(client, handle, keywork.WorkerOptions{
//		Interceptors: []keywork.Interceptor{tracing.Interceptor()},
//	})
package keyworkotel

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	keywork "github.com/keywork/keywork/sdk/go"
)

// scope names this package's spans.
const scope = "github.com/keywork/keywork/sdk/go/keyworkotel"

// Options say what to trace with. The zero value is that of all defaults.
type Options struct {
	// TracerProvider makes the spans. Default: the global one.
	TracerProvider trace.TracerProvider
	// Propagator writes and reads the attributes. Default: W3C trace context, as traceparent and tracestate.
	Propagator propagation.TextMapPropagator
	// Link makes the span of a handler the root of a trace of its own, with a link to the span in which the job was
	// submitted. Default: it is a child of that one.
	Link bool
}

// Tracing is what traces submits and handlers.
type Tracing struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	link       bool
}

// New makes it.
func New(options Options) *Tracing {
	if options.TracerProvider == nil {
		options.TracerProvider = otel.GetTracerProvider()
	}
	if options.Propagator == nil {
		options.Propagator = propagation.TraceContext{}
	}
	tracer := options.TracerProvider.Tracer(scope, trace.WithInstrumentationVersion(keywork.Version))
	return &Tracing{tracer, options.Propagator, options.Link}
}

// SubmitInterceptor writes the trace context of a submit into the job's attributes, unless they have a traceparent. It
// makes no span: the caller's is the handler's parent.
func (t *Tracing) SubmitInterceptor() keywork.SubmitInterceptor {
	return func(ctx context.Context, submit *keywork.Submit) func(keywork.Submitted, error) {
		if _, has := submit.Attributes["traceparent"]; has {
			return nil
		}
		carried := propagation.MapCarrier{}
		t.propagator.Inject(ctx, carried)
		if submit.Attributes == nil {
			submit.Attributes = make(map[string]string)
		}
		maps.Copy(submit.Attributes, carried)
		return nil
	}
}

// Interceptor runs each handler in a span "process QUEUE", whose parent is the context that the job carries.
func (t *Tracing) Interceptor() keywork.Interceptor {
	return func(ctx context.Context, job *keywork.Job, next keywork.Handler) (err error) {
		ctx, span := t.start(ctx, job)
		defer func() {
			panicked := recover()
			if panicked != nil {
				err = fmt.Errorf("the handler panicked: %v", panicked)
			}
			end(ctx, span, err, trace.WithStackTrace(panicked != nil))
			if panicked != nil {
				panic(panicked)
			}
		}()
		// What is left when the handler neither returns nor panics.
		err = errors.New("the handler ended its goroutine")
		err = next(ctx, job)
		return err
	}
}

func (t *Tracing) start(ctx context.Context, job *keywork.Job) (context.Context, trace.Span) {
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attribute.String("messaging.system", "keywork"),
			attribute.String("messaging.operation.type", "process"),
			attribute.String("messaging.destination.name", job.Queue),
			attribute.String("messaging.message.id", job.ID),
			attribute.String("keywork.key", job.Key),
			attribute.Int("keywork.attempt", job.Attempt),
			attribute.Int64("keywork.fencing_number", int64(job.FencingNumber)),
		),
	}
	carried := t.propagator.Extract(ctx, propagation.MapCarrier(job.Attributes))
	if !t.link {
		return t.tracer.Start(carried, "process "+job.Queue, options...)
	}
	link := trace.LinkFromContext(carried)
	return t.tracer.Start(ctx, "process "+job.Queue, append(options, trace.WithNewRoot(), trace.WithLinks(link))...)
}

// end ends a handler's span with what becomes of its job.
func end(ctx context.Context, span trace.Span, err error, stack trace.EventOption) {
	defer span.End()
	outcome := keywork.OutcomeWithin(ctx, err)
	if outcome.Kind == keywork.OutcomeDropped {
		// The span tells what the handler did all the same.
		outcome = keywork.OutcomeOf(err)
	}
	span.SetAttributes(attribute.String("keywork.outcome", outcome.Kind.String()))
	switch outcome.Kind {
	case keywork.OutcomeRetry:
		if !outcome.Chosen {
			span.RecordError(err, stack)
		}
		span.SetStatus(codes.Error, outcome.Error)
	case keywork.OutcomeFail:
		span.SetStatus(codes.Error, outcome.Error)
	}
}
