/// <reference lib="esnext.disposable" preserve="true" />
/** For tests of programs that use Keywork: a server in this process, and a way to run a handler without one. */
import { randomUUID } from "node:crypto";
import { bytesOf } from "../client/submit.js";
import { Job, type JobFields, noJob } from "../job.js";
import { now } from "../worker/clock.js";
import { Context } from "../worker/context.js";
import { chainOf, type Handler } from "../worker/handler.js";
import type { Outcome } from "../worker/outcome.js";
import type { CancelReason } from "../worker/shared.js";

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
  /** The handler is told to stop when this is aborted. */
  readonly cancel?: AbortSignal;
  /** What it is told then. Default: `LEASE_LOST`. */
  readonly reason?: CancelReason;
}

/** Runs a handler on one job, with a lease that lasts, and tells how it ended. No server is needed. */
export async function runOnce(handler: Handler, job: Job, options: RunOnceOptions = {}): Promise<Outcome> {
  const { cancel, reason = "LEASE_LOST" } = options;
  const deadline = now() + HOUR_MS;
  const context = new Context({
    reason: () => (cancel?.aborted ? reason : undefined),
    deadline: () => deadline,
  });
  const fire = () => context.fire();
  if (cancel?.aborted) fire();
  cancel?.addEventListener("abort", fire, { once: true });
  try {
    return await chainOf([], handler, undefined)(context, job);
  } finally {
    cancel?.removeEventListener("abort", fire);
  }
}
