package dev.keywork.otel;

import dev.keywork.client.Submit;
import dev.keywork.client.SubmitInterceptor;
import dev.keywork.job.Job;
import dev.keywork.job.Outcome;
import dev.keywork.job.OutcomeException;
import dev.keywork.worker.CancelReason;
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
import java.util.Locale;
import java.util.Map;

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
  private static final String OUTCOME = "keywork.outcome";
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
   * Writes the context that is current where a submit is made into the job's attributes, unless they have a {@code
   * traceparent}. It makes no span.
   *
   * @return an interceptor of a client
   */
  public SubmitInterceptor submits() {
    return (submit, next) -> next.apply(carrying(submit));
  }

  /**
   * Runs each handler in a span {@code process <queue>} whose parent is the context that came with the job.
   *
   * @return an interceptor of a worker
   */
  public HandlerInterceptor handlers() {
    return this::handle;
  }

  private static Submit carrying(Submit submit) {
    if (submit.attributes().containsKey(TRACE_PARENT)) {
      return submit;
    }
    Submit.Builder builder = submit.toBuilder();
    W3C.inject(Context.current(), builder, Submit.Builder::attribute);
    return builder.build();
  }

  @SuppressWarnings("try") // A scope is only ever closed.
  private Outcome handle(JobContext context, Job job, JobHandler next) throws Exception {
    Context parent = W3C.extract(Context.current(), job.attributes(), new Attributes());
    Span span = span(job, parent);
    try (Scope ignored = parent.with(span).makeCurrent()) {
      Outcome outcome = next.handle(context, job);
      ended(span, outcome);
      return outcome;
    } catch (OutcomeException chosen) {
      ended(span, chosen.outcome());
      throw chosen;
    } catch (Exception | Error error) {
      failed(span, context, error);
      throw error;
    } finally {
      span.end();
    }
  }

  private Span span(Job job, Context parent) {
    return tracer.spanBuilder("process " + job.queue())
        .setParent(parent)
        .setSpanKind(SpanKind.CONSUMER)
        .setAttribute("messaging.system", "keywork")
        .setAttribute("messaging.operation.type", "process")
        .setAttribute("messaging.destination.name", job.queue())
        .setAttribute("messaging.message.id", job.id())
        .setAttribute("keywork.key", job.key())
        .setAttribute("keywork.attempt", job.attempt())
        .setAttribute("keywork.fencing_number", job.fencingNumber())
        .startSpan();
  }

  /** The handler chose how the attempt ends; a null becomes a retry. */
  private static void ended(Span span, Outcome outcome) {
    if (outcome instanceof Outcome.Fail fail) {
      span.setStatus(StatusCode.ERROR, fail.reason());
    } else if (outcome instanceof Outcome.Retry retry) {
      span.setStatus(StatusCode.ERROR, retry.error());
    } else if (outcome == null) {
      span.setStatus(StatusCode.ERROR, "the handler returned null");
    }
    span.setAttribute(OUTCOME, outcome == null ? "retry" : name(outcome));
  }

  private static String name(Outcome outcome) {
    return outcome.getClass().getSimpleName().toLowerCase(Locale.ROOT);
  }

  /** An exception of a handler that stops with its worker is no failure: the job goes back. */
  private static void failed(Span span, JobContext context, Throwable error) {
    if (context.reason().orElse(null) == CancelReason.WORKER_SHUTDOWN) {
      span.setAttribute(OUTCOME, "release");
      return;
    }
    span.setAttribute(OUTCOME, "retry");
    span.setStatus(StatusCode.ERROR, error.toString());
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
