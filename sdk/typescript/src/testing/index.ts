/// <reference lib="esnext.disposable" preserve="true" />
/** For tests of programs that use Keywork: a server in this process, and a way to run a handler without one. */
import { randomUUID } from "node:crypto";
import { bytesOf } from "../fields.js";
import { Job, type JobFields, noJob } from "../job.js";
import { now } from "../worker/clock.js";
import { CancelledError, Context } from "../worker/context.js";
import { chainOf, type Handler } from "../worker/handler.js";
import type { Outcome } from "../worker/outcome.js";
import { type CancelReason, REASONS } from "../worker/shared.js";

export { FakeServer, type FakeServerOptions } from "./fake-server.js";
export type {
  Script,
  Seen,
  SeenSettlement,
  SettledAs,
  SettlementAnswer,
  SubmitFault,
} from "./script.js";
export type { FakeStatus } from "./status.js";

const HOUR_MS = 3_600_000;

/** What is not as usual about the job that {@link job} makes. */
export interface JobOptions extends Partial<Omit<JobFields, "queue" | "key" | "payload">> {
  readonly payload?: Uint8Array | string;
}

/** A job for {@link runOnce}: its first attempt, without a payload unless one is given. */
export function job(queue: string, key: string, { payload, ...options }: JobOptions = {}): Job {
  return new Job({
    ...noJob(),
    id: randomUUID(),
    queue,
    key,
    payload: bytesOf(payload),
    state: "LEASED",
    attempt: 1,
    maxAttempts: 10,
    fencingNumber: 1n,
    ...options,
  });
}

/** How {@link runOnce} is to treat the handler. */
export interface RunOnceOptions {
  /**
   * The handler is told to stop when this is aborted. The reason that it is told is the one that the signal is aborted
   * with: `stop.abort("WORKER_SHUTDOWN")`.
   */
  readonly cancel?: AbortSignal;
  /** What it is told where the signal is aborted with none of the three reasons. Default: `LEASE_LOST`. */
  readonly reason?: CancelReason;
}

/**
 * What a worker does after a handler's run: settles its job so, or drops its result, since the lease was lost or the job
 * cancelled before it ended.
 */
export type RunOnceOutcome =
  | Outcome
  | { readonly as: "dropped"; readonly reason: Exclude<CancelReason, "WORKER_SHUTDOWN"> };

/** Runs a handler on one job, with a lease that lasts, and tells what a worker does then. No server is needed. */
export async function runOnce(
  handler: Handler,
  job: Job,
  { cancel, reason = "LEASE_LOST" }: RunOnceOptions = {},
): Promise<RunOnceOutcome> {
  const deadline = now() + HOUR_MS;
  const context = new Context({
    reason: () => (cancel?.aborted ? (reasonOf(cancel.reason) ?? reason) : undefined),
    deadline: () => deadline,
  });
  const fire = () => context.fire();
  if (cancel?.aborted) fire();
  cancel?.addEventListener("abort", fire, { once: true });
  // As a worker does, it keeps the process: the timer of `AbortSignal.timeout` does not.
  const running = setInterval(() => undefined, HOUR_MS);
  try {
    const { outcome } = await chainOf([], handler, undefined)(context, job);
    const ended = context.reason;
    const dropped = ended === "LEASE_LOST" || ended === "JOB_CANCELLED";
    return dropped ? { as: "dropped", reason: ended } : outcome;
  } finally {
    clearInterval(running);
    cancel?.removeEventListener("abort", fire);
  }
}

function reasonOf(given: unknown): CancelReason | undefined {
  const reason = given instanceof CancelledError ? given.reason : given;
  return REASONS.find((one) => one === reason);
}
