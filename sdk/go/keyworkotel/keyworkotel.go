// Package keyworkotel carries OpenTelemetry's trace context from where a job is submitted to where it runs, and runs
// handlers in spans. It is a module of its own, so that programs without OpenTelemetry do not pull it in.
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
	// Link makes the span of a handler the root of a trace of its own, with a link to the submit. Default: it is a child
	// of the submit's span.
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

// SubmitInterceptor makes a span for each submit, and writes its context into the job's attributes.
func (t *Tracing) SubmitInterceptor() keywork.SubmitInterceptor {
	return func(ctx context.Context, submit *keywork.Submit) func(keywork.Submitted, error) {
		ctx, span := t.tracer.Start(ctx, "submit "+submit.Queue,
			trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(about(submit.Queue, submit.Key)...))
		if submit.Attributes == nil {
			submit.Attributes = make(map[string]string)
		}
		t.propagator.Inject(ctx, propagation.MapCarrier(submit.Attributes))
		return func(submitted keywork.Submitted, err error) {
			defer span.End()
			if err != nil {
				fail(span, err)
				return
			}
			span.SetAttributes(
				attribute.String("messaging.message.id", submitted.Job.ID),
				attribute.String("keywork.outcome", submitted.Outcome.String()),
			)
		}
	}
}

// Interceptor runs each handler in a span that follows the submit's.
func (t *Tracing) Interceptor() keywork.Interceptor {
	return func(ctx context.Context, job *keywork.Job, next keywork.Handler) error {
		ctx, span := t.start(ctx, job)
		defer span.End()
		err := next(ctx, job)
		switch outcome := keywork.OutcomeOf(err); outcome.Kind {
		case keywork.OutcomeRetry, keywork.OutcomeFail:
			fail(span, err)
			span.SetAttributes(attribute.String("keywork.outcome", outcome.Kind.String()))
		default:
			span.SetAttributes(attribute.String("keywork.outcome", outcome.Kind.String()))
		}
		return err
	}
}

func (t *Tracing) start(ctx context.Context, job *keywork.Job) (context.Context, trace.Span) {
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(about(job.Queue, job.Key)...),
		trace.WithAttributes(
			attribute.String("messaging.message.id", job.ID),
			attribute.Int("keywork.attempt", job.Attempt),
		),
	}
	submitted := t.propagator.Extract(ctx, propagation.MapCarrier(job.Attributes))
	if !t.link {
		return t.tracer.Start(submitted, "run "+job.Queue, options...)
	}
	link := trace.LinkFromContext(submitted)
	return t.tracer.Start(ctx, "run "+job.Queue, append(options, trace.WithNewRoot(), trace.WithLinks(link))...)
}

func about(queue, key string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("messaging.system", "keywork"),
		attribute.String("messaging.destination.name", queue),
		attribute.String("keywork.key", key),
	}
}

func fail(span trace.Span, err error) {
	var refused *keywork.Error
	if errors.As(err, &refused) && refused.Reason() != "" {
		span.SetAttributes(attribute.String("error.type", string(refused.Reason())))
	}
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
}
