/**
 * How trace context travels from a submit to the handler, without a dependency on any tracing library.
 *
 * `@keywork/sdk/opentelemetry` implements it.
 */
import type { Job } from "./job.js";
import type { HandlerRun } from "./worker/outcome.js";

/** What a client and a worker ask of a tracing library. */
export interface Tracing {
  /**
   * Called for every submit that has no attribute `traceparent`: gives the attributes to add, such as `traceparent` and
   * `tracestate`.
   */
  inject(): Record<string, string>;
  /**
   * Called for every job: calls `handler`, which never rejects and tells how the handler's run ended, for example in a span
   * of the context that the job's attributes carry. Resolves when that is done.
   */
  run(job: Job, handler: () => Promise<HandlerRun>): Promise<unknown>;
}
