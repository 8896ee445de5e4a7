/**
 * Trace context from submits to handlers, by OpenTelemetry.
 *
 * Needs `@opentelemetry/api`, which a program that traces has anyway; nothing else of this package imports it.
 */
import {
  type Attributes,
  context as contexts,
  defaultTextMapGetter,
  defaultTextMapSetter,
  propagation,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TextMapPropagator,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import type { Job } from "./job.js";
import type { Tracing } from "./tracing.js";
import { VERSION } from "./version.js";
import type { HandlerRun } from "./worker/outcome.js";

/** How {@link openTelemetry} traces. */
export interface OpenTelemetryOptions {
  /** Makes the handlers' spans. Default: the globally registered provider's. */
  readonly tracer?: Tracer;
  /** Writes and reads the attributes. Default: the globally registered one, usually W3C `traceparent`. */
  readonly propagator?: TextMapPropagator;
}

/**
 * Carries the context that is active at a submit to the handler, which runs in a span whose parent is that context.
 * Give it to a client as `tracing`; its workers use it too.
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Tracing {
  const propagator = options.propagator ?? propagation;
  const tracer = () => options.tracer ?? trace.getTracer("@keywork/sdk", VERSION);
  return {
    inject() {
      const attributes: Record<string, string> = {};
      propagator.inject(contexts.active(), attributes, defaultTextMapSetter);
      return attributes;
    },
    run(job, handler) {
      const parent = propagator.extract(contexts.active(), job.attributes, defaultTextMapGetter);
      const options = { kind: SpanKind.CONSUMER, attributes: attributesOf(job) };
      return tracer().startActiveSpan(`process ${job.queue}`, options, parent, async (span) => {
        try {
          tell(span, await handler());
        } finally {
          span.end();
        }
      });
    },
  };
}

function attributesOf(job: Job): Attributes {
  return {
    "messaging.system": "keywork",
    "messaging.operation.type": "process",
    "messaging.destination.name": job.queue,
    "messaging.message.id": job.id,
    "keywork.key": job.key,
    "keywork.attempt": job.attempt,
    "keywork.fencing_number": Number(job.fencingNumber),
  };
}

function tell(span: Span, run: HandlerRun): void {
  const { outcome } = run;
  span.setAttribute("keywork.outcome", outcome.as);
  if (outcome.as === "retry") span.setStatus({ code: SpanStatusCode.ERROR, message: outcome.error });
  if (outcome.as === "fail") span.setStatus({ code: SpanStatusCode.ERROR, message: outcome.reason });
  if (outcome.as === "retry" && !outcome.chosen) {
    span.recordException(run.error instanceof Error ? run.error : outcome.error);
  }
}
