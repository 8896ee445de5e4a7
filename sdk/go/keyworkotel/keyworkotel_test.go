package keyworkotel_test

import (
	"context"
	"errors"
	"slices"
	"testing"

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

func TestAHandlerRunsInAChildOfTheSubmitsSpan(t *testing.T) {
	var inside trace.SpanContext
	caller, spans := follow(t, false, func(ctx context.Context, _ *keywork.Job) error {
		inside = trace.SpanContextFromContext(ctx)
		return nil
	})
	submit, run := spans["submit q"], spans["run q"]
	if submit.Parent.SpanID() != caller.SpanID() {
		t.Fatalf("the submit's parent is %v", submit.Parent)
	}
	if run.Parent.SpanID() != submit.SpanContext.SpanID() || run.SpanContext.TraceID() != caller.TraceID() {
		t.Fatalf("the run's parent is %v", run.Parent)
	}
	if inside.SpanID() != run.SpanContext.SpanID() {
		t.Fatalf("the handler ran in %v", inside)
	}
}

func TestAHandlersSpanCanBeALinkedRoot(t *testing.T) {
	_, spans := follow(t, true, func(context.Context, *keywork.Job) error { return nil })
	submit, run := spans["submit q"], spans["run q"]
	linked := slices.ContainsFunc(run.Links, func(link sdktrace.Link) bool {
		return link.SpanContext.SpanID() == submit.SpanContext.SpanID()
	})
	if run.Parent.IsValid() || !linked {
		t.Fatalf("parent %v, links %v", run.Parent, run.Links)
	}
}

func TestAFailureShowsInTheSpan(t *testing.T) {
	_, spans := follow(t, false, func(context.Context, *keywork.Job) error { return errors.New("broke") })
	if status := spans["run q"].Status; status.Code != codes.Error || status.Description != "broke" {
		t.Fatalf("the status is %v", status)
	}
}
