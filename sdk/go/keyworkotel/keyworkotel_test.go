package keyworkotel_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworkotel"
	"github.com/keywork/keywork/sdk/go/keyworktest"
)

// follow submits one job within a span and runs it; it gives that span's context and the spans that were ended.
func follow(t *testing.T, link bool, handler keywork.Handler) (trace.SpanContext, map[string]tracetest.SpanStub) {
	t.Helper()
	exported := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exported))
	tracing := keyworkotel.New(keyworkotel.Options{TracerProvider: provider, Link: link})
	server := keyworktest.NewServer(t, keyworktest.Options{})
	client, err := keywork.NewClient(keywork.ClientOptions{
		Endpoints:          []string{server.Endpoint()},
		SubmitInterceptors: []keywork.SubmitInterceptor{tracing.SubmitInterceptor()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, caller := provider.Tracer("test").Start(t.Context(), "caller")
	if _, err := client.Submit(ctx, keywork.Submit{Queue: "q", Key: "k", MaxAttempts: 1}); err != nil {
		t.Fatal(err)
	}
	caller.End()
	if server.Outstanding("q", "k").GetAttributes()["traceparent"] == "" {
		t.Fatal("no traceparent was sent along")
	}
	worker := keywork.NewWorker(client, handler, keywork.WorkerOptions{
		Queues: keywork.Queues("q"), LeaveSignals: true,
		Interceptors: []keywork.Interceptor{tracing.Interceptor()},
	})
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(context.Background()) }()
	server.Until(t, "the run", func(seen keyworktest.Seen) bool { return len(seen.Settlements) == 1 })
	worker.Drain()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	spans := make(map[string]tracetest.SpanStub)
	for _, span := range exported.GetSpans() {
		spans[span.Name] = span
	}
	return caller.SpanContext(), spans
}

func TestAHandlerRunsInAChildOfTheSpanOfItsSubmit(t *testing.T) {
	var inside trace.SpanContext
	var job keywork.Job
	caller, spans := follow(t, false, func(ctx context.Context, running *keywork.Job) error {
		inside, job = trace.SpanContextFromContext(ctx), *running
		return nil
	})
	run := spans["process q"]
	if len(spans) != 2 || run.SpanKind != trace.SpanKindConsumer {
		t.Fatalf("the spans are %+v", spans)
	}
	if run.Parent.SpanID() != caller.SpanID() || run.SpanContext.TraceID() != caller.TraceID() {
		t.Fatalf("the run's parent is %v", run.Parent)
	}
	if inside.SpanID() != run.SpanContext.SpanID() {
		t.Fatalf("the handler ran in %v", inside)
	}
	want := map[attribute.Key]any{
		"messaging.system": "keywork", "messaging.operation.type": "process", "messaging.destination.name": "q",
		"messaging.message.id": job.ID, "keywork.key": "k", "keywork.attempt": int64(1),
		"keywork.fencing_number": int64(job.FencingNumber), "keywork.outcome": "complete",
	}
	got := make(map[attribute.Key]any)
	for _, attribute := range run.Attributes {
		got[attribute.Key] = attribute.Value.AsInterface()
	}
	if !maps.Equal(got, want) {
		t.Fatalf("the attributes are %v, not %v", got, want)
	}
}

func TestAHandlersSpanCanBeALinkedRoot(t *testing.T) {
	caller, spans := follow(t, true, func(context.Context, *keywork.Job) error { return nil })
	run := spans["process q"]
	linked := slices.ContainsFunc(run.Links, func(link sdktrace.Link) bool {
		return link.SpanContext.SpanID() == caller.SpanID()
	})
	if run.Parent.IsValid() || !linked {
		t.Fatalf("parent %v, links %v", run.Parent, run.Links)
	}
}

func TestATraceparentOfTheCallersOwnIsKept(t *testing.T) {
	ctx, span := sdktrace.NewTracerProvider().Tracer("test").Start(t.Context(), "caller")
	defer span.End()
	intercept := keyworkotel.New(keyworkotel.Options{}).SubmitInterceptor()
	submit := keywork.Submit{Attributes: map[string]string{"traceparent": "mine"}}
	intercept(ctx, &submit)
	if submit.Attributes["traceparent"] != "mine" {
		t.Fatalf("the attributes are %v", submit.Attributes)
	}
}

func TestTheSpanShowsHowTheHandlerEnded(t *testing.T) {
	broke := errors.New("broke")
	cases := []struct {
		name, outcome string
		handle        keywork.Handler
		cause         error
		status        sdktrace.Status
		recorded      bool
	}{
		{"complete", "complete", ends(nil), nil, sdktrace.Status{}, false},
		{"error", "retry", ends(broke), nil, failed("broke"), true},
		{"retry", "retry", ends(keywork.Retry(0).Because(broke)), nil, failed("broke"), false},
		{"fail", "fail", ends(keywork.Fail("no use")), nil, failed("no use"), false},
		{"release", "release", ends(keywork.Release), nil, sdktrace.Status{}, false},
		{"rerun", "rerun", ends(keywork.Rerun(0)), nil, sdktrace.Status{}, false},
		{"shutdown", "release", ends(broke), keywork.ErrWorkerShutdown, sdktrace.Status{}, false},
		{"lost", "retry", ends(broke), keywork.ErrLeaseLost, failed("broke"), true},
		{"panic", "retry", func(context.Context, *keywork.Job) error { panic("oh no") }, nil,
			failed("the handler panicked: oh no"), true},
	}
	for _, one := range cases {
		t.Run(one.name, func(t *testing.T) {
			exported := tracetest.NewInMemoryExporter()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exported))
			intercept := keyworkotel.New(keyworkotel.Options{TracerProvider: provider}).Interceptor()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			handler := func(ctx context.Context, job *keywork.Job) error {
				cancelWith(cancel, one.cause)
				return one.handle(ctx, job)
			}
			keyworktest.RunOnce(ctx, func(ctx context.Context, job *keywork.Job) error {
				return intercept(ctx, job, handler)
			}, keyworktest.Job("q", "k"))
			span := exported.GetSpans()[0]
			if span.Status != one.status || len(span.Events) > 0 != one.recorded {
				t.Fatalf("status %+v, events %+v", span.Status, span.Events)
			}
			if !slices.Contains(span.Attributes, attribute.String("keywork.outcome", one.outcome)) {
				t.Fatalf("attributes %v", span.Attributes)
			}
		})
	}
}

func ends(with error) keywork.Handler {
	return func(context.Context, *keywork.Job) error { return with }
}

func failed(text string) sdktrace.Status {
	return sdktrace.Status{Code: codes.Error, Description: text}
}

func cancelWith(cancel context.CancelCauseFunc, cause error) {
	if cause != nil {
		cancel(cause)
	}
}
