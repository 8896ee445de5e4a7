/** Trace context by OpenTelemetry, as a program that traces sets it up. */
import { context, propagation, ROOT_CONTEXT, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { BasicTracerProvider } from "@opentelemetry/sdk-trace-base";
import { openTelemetry } from "../../../../sdk/typescript/dist/opentelemetry.js";

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
propagation.setGlobalPropagator(new W3CTraceContextPropagator());
trace.setGlobalTracerProvider(new BasicTracerProvider());

export const tracing = openTelemetry();

/** Makes a call as if a span of this W3C context were active. */
export function within<T>(traceparent: string, call: () => Promise<T>): Promise<T> {
  return context.with(propagation.extract(ROOT_CONTEXT, { traceparent }), call);
}

/** The trace of the span that is active, in hex. */
export function activeTrace(): string {
  return trace.getActiveSpan()?.spanContext().traceId ?? "";
}
