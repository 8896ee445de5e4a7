/** What runs a job, and what can be wrapped around it. */
import type { Job } from "../job.js";
import type { Tracing } from "../tracing.js";
import type { Context } from "./context.js";
import { type HandlerResult, type Outcome, outcomeOfReturn, outcomeOfThrow } from "./outcome.js";

/**
 * Runs one job. Returning completes it; `Retry`, `Fail`, `Release` and `Rerun`, returned or thrown, have a meaning of
 * their own; any other error means: try again after the job's backoff.
 */
export type Handler = (context: Context, job: Job) => HandlerResult | PromiseLike<HandlerResult>;

/** Wraps every handler call: for tracing, metrics, resources. Does what is to be done around `next`. */
export type Interceptor = (
  context: Context,
  job: Job,
  next: () => Promise<HandlerResult>,
) => Promise<HandlerResult>;

/** Runs one job to its outcome, whatever the handler does. */
export type Chain = (context: Context, job: Job) => Promise<Outcome>;

/** The interceptors around the handler: the first one is the outermost, and tracing is around them all. */
export function chainOf(
  interceptors: readonly Interceptor[],
  handler: Handler,
  tracing: Tracing | undefined,
): Chain {
  const call = (context: Context, job: Job, place = 0): Promise<HandlerResult> => {
    const interceptor = interceptors[place];
    if (interceptor === undefined) return Promise.resolve(handler(context, job));
    return interceptor(context, job, () => attempt(() => call(context, job, place + 1)));
  };
  return async (context, job) => {
    try {
      const run = () => attempt(() => call(context, job));
      return outcomeOfReturn(await (tracing === undefined ? run() : tracing.run(job, run)));
    } catch (thrown) {
      return outcomeOfThrow(thrown);
    }
  };
}

/** A call whose error always comes by the promise. */
async function attempt(call: () => Promise<HandlerResult>): Promise<HandlerResult> {
  return call();
}
