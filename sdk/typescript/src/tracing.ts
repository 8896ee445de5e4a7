/**
 * How trace context travels from a submit to the handler, without a dependency on any tracing library.
 *
 * `@keywork/sdk/opentelemetry` implements it.
 */
import type { Job } from "./job.js";

/** What a client and a worker ask of a tracing library. */
export interface Tracing {
  /** Called for every submit: gives the attributes to add, such as `traceparent` and `tracestate`. */
  inject(): Record<string, string>;
  /** Called for every job: runs the handler, for example in a span of the context that the attributes carry. */
  run<T>(job: Job, handler: () => Promise<T>): Promise<T>;
}
