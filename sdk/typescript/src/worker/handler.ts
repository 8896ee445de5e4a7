/** What runs a job, and what can be wrapped around it. */
import type { Job } from "../job.js";
import type { Tracing } from "../tracing.js";
import type { Context } from "./context.js";
import { type HandlerResult, type HandlerRun, runOfReturn, runOfThrow } from "./outcome.js";

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

/** Runs one job to its outcome, whatever the handler does: it never rejects. */
export type Chain = (context: Context, job: Job) => Promise<HandlerRun>;

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
  const run: Chain = async (context, job) => {
    try {
      return runOfReturn(await call(context, job));
    } catch (thrown) {
      return runOfThrow(thrown, context.reason);
    }
  };
  return tracing === undefined ? run : traced(tracing, run);
}

/** Tracing decides nothing: whatever it does wrong, the handler runs, and once. */
function traced(tracing: Tracing, run: Chain): Chain {
  return async (context, job) => {
    let ended: Promise<HandlerRun> | undefined;
    const runOnce = () => (ended ??= run(context, job));
    try {
      await tracing.run(job, runOnce);
    } catch {
      // What the handler threw is in its run: this is tracing's own trouble.
    }
    return runOnce();
  };
}

/** A call whose error always comes by the promise. */
async function attempt(call: () => Promise<HandlerResult>): Promise<HandlerResult> {
  return call();
}
