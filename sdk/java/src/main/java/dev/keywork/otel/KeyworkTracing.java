package dev.keywork.otel;

import dev.keywork.client.Submit;
import dev.keywork.client.SubmitInterceptor;
import dev.keywork.client.SubmitOutcome;
import dev.keywork.job.Job;
import dev.keywork.job.Outcome;
import dev.keywork.worker.HandlerInterceptor;
import dev.keywork.worker.JobContext;
import dev.keywork.worker.JobHandler;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.context.propagation.TextMapGetter;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/**
 * Carries the trace of a submit to its handler, in the attributes {@code traceparent} and {@code tracestate}, as W3C
 * Trace Context has them.
 *
 * <pre>{@code
 * KeyworkTracing tracing = KeyworkTracing.of(openTelemetry);
 * KeyworkClient client = KeyworkClient.builder().interceptor(tracing.submits()).build();
 * Worker.builder(client, "reconcile").interceptor(tracing.handlers())
 * }</pre>
 */
public final class KeyworkTracing {
  private static final String SCOPE = "dev.keywork.sdk";
  private static final String TRACE_PARENT = "traceparent";
  private static final W3CTraceContextPropagator W3C = W3CTraceContextPropagator.getInstance();

  private final Tracer tracer;

  private KeyworkTracing(Tracer tracer) {
    this.tracer = tracer;
  }

  /**
   * Traces with this.
   *
   * @param openTelemetry where spans go
   * @return the interceptors' maker
   */
  public static KeyworkTracing of(OpenTelemetry openTelemetry) {
    return new KeyworkTracing(openTelemetry.getTracer(SCOPE));
  }

  /**
   * Makes a span for each submit and puts its context into the job's attributes, unless there is one already.
   *
   * @return an interceptor of a client
   */
  public SubmitInterceptor submits() {
    return this::submit;
  }

  /**
   * Runs each handler in a span whose parent is the context that came with the job.
   *
   * @return an interceptor of a worker
   */
  public HandlerInterceptor handlers() {
    return this::handle;
  }

  private CompletableFuture<SubmitOutcome> submit(
      Submit submit, Function<Submit, CompletableFuture<SubmitOutcome>> next) {
    Span span = tracer.spanBuilder("submit " + submit.queue())
        .setSpanKind(SpanKind.PRODUCER)
        .setAttribute("messaging.system", "keywork")
        .setAttribute("messaging.destination.name", submit.queue())
        .startSpan();
    Submit traced = submit.attributes().containsKey(TRACE_PARENT) ? submit : injected(submit, span);
    try {
      CompletableFuture<SubmitOutcome> outcome = next.apply(traced);
      outcome.whenComplete((answer, error) -> {
        if (error != null) {
          failed(span, error);
        }
        span.end();
      });
      return outcome;
    } catch (RuntimeException refused) {
      failed(span, refused);
      span.end();
      throw refused;
    }
  }

  private static Submit injected(Submit submit, Span span) {
    Submit.Builder builder = submit.toBuilder();
    W3C.inject(Context.current().with(span), builder, Submit.Builder::attribute);
    return builder.build();
  }

  @SuppressWarnings("try") // A scope is only ever closed.
  private Outcome handle(JobContext context, Job job, JobHandler next) throws Exception {
    Context parent = W3C.extract(Context.current(), job.attributes(), new Attributes());
    Span span = tracer.spanBuilder("process " + job.queue())
        .setParent(parent)
        .setSpanKind(SpanKind.CONSUMER)
        .setAttribute("messaging.system", "keywork")
        .setAttribute("messaging.destination.name", job.queue())
        .setAttribute("messaging.message.id", job.id())
        .setAttribute("keywork.attempt", job.attempt())
        .startSpan();
    try (Scope ignored = parent.with(span).makeCurrent()) {
      return next.handle(context, job);
    } catch (Exception | Error error) {
      failed(span, error);
      throw error;
    } finally {
      span.end();
    }
  }

  private static void failed(Span span, Throwable error) {
    span.setStatus(StatusCode.ERROR);
    span.recordException(error);
  }

  private static final class Attributes implements TextMapGetter<Map<String, String>> {
    @Override
    public Iterable<String> keys(Map<String, String> attributes) {
      return attributes.keySet();
    }

    @Override
    public String get(Map<String, String> attributes, String name) {
      return attributes == null ? null : attributes.get(name);
    }
  }
}
