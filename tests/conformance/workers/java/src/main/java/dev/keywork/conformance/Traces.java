package dev.keywork.conformance;

import dev.keywork.client.SubmitInterceptor;
import dev.keywork.otel.KeyworkTracing;
import dev.keywork.worker.HandlerInterceptor;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.context.propagation.TextMapGetter;
import io.opentelemetry.sdk.OpenTelemetrySdk;

/** Trace contexts from submits to handlers, for those that have one. */
final class Traces {
  private static final String TRACE_PARENT = "traceparent";
  private static final KeyworkTracing TRACING = KeyworkTracing.of(OpenTelemetrySdk.builder().build());

  private Traces() {}

  static SubmitInterceptor submits() {
    SubmitInterceptor traced = TRACING.submits();
    return (submit, next) -> isActive() ? traced.intercept(submit, next) : next.apply(submit);
  }

  static HandlerInterceptor handlers() {
    HandlerInterceptor traced = TRACING.handlers();
    return (context, job, next) -> job.attributes().containsKey(TRACE_PARENT)
        ? traced.intercept(context, job, next)
        : next.handle(context, job);
  }

  private static boolean isActive() {
    return Span.current().getSpanContext().isValid();
  }

  /** Makes the command's trace context that of this thread; close it. */
  static Scope of(Args command) {
    return W3CTraceContextPropagator.getInstance().extract(Context.current(), command, new Members()).makeCurrent();
  }

  /** The id of the trace that this thread is in, or empty. */
  static String current() {
    return isActive() ? Span.current().getSpanContext().getTraceId() : "";
  }

  private static final class Members implements TextMapGetter<Args> {
    @Override
    public Iterable<String> keys(Args command) {
      return command.json().keySet();
    }

    @Override
    public String get(Args command, String name) {
      String value = command.text(name);
      return value.isEmpty() ? null : value;
    }
  }
}
