/**
 * Leasing without a stream: pull, heartbeat, settle by token.
 *
 * For programs that run now and then. The caller keeps the deadlines; a worker does that by itself.
 */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { itemError, type KeyworkError, localError } from "../errors.js";
import { uint32 } from "../fields.js";
import {
  type Delivery,
  type HeartbeatResult,
  PullRequestSchema,
  type SettlementResult,
  type SettlementSchema,
  LostReason as WireLostReason,
  SettlementOutcome as WireSettled,
} from "../generated/keywork/v1/work_queue_pb.js";
import { Job, jobFields, noJob } from "../job.js";
import { durationOf, msOf } from "../wire.js";
import type { CallOptions, Core } from "./core.js";

/** Why a lease was lost. `UNKNOWN`: the server gave a reason that this version does not know. */
export type LostReason = "UNKNOWN" | "EXPIRED" | "CANCELLED" | "SUPERSEDED" | "INVALID";

/** What to pull. */
export interface PullOptions extends CallOptions {
  /** At most this many jobs: 1 to 1,000. Default: 1. */
  readonly maxJobs?: number;
  /** How long to wait for the first job: 0 to 60,000. Default: 20,000. */
  readonly waitMs?: number;
  /** Names the worker, for people who look at the job. */
  readonly workerId?: string;
}

/** A job with its lease. */
export interface Leased {
  /** Names the lease: opaque. */
  readonly token: Uint8Array;
  /** The job. */
  readonly job: Job;
  /** Until the deadline, from when the server sent this. Count it from before the call. */
  readonly timeLeftMs: number;
}

/**
 * What became of one lease that was to be extended: `EXTENDED` (it holds for `timeLeftMs`; use `token` from now on),
 * `TRY_AGAIN` (it is as before), or `LOST`.
 */
export type LeaseExtension =
  | { readonly outcome: "EXTENDED"; readonly token: Uint8Array; readonly timeLeftMs: number }
  | { readonly outcome: "TRY_AGAIN"; readonly token: Uint8Array }
  | { readonly outcome: "LOST"; readonly reason: LostReason };

/** How to settle a lease. */
export type Settle =
  | { readonly as: "complete" }
  | { readonly as: "retry"; readonly delayMs?: number; readonly error?: string }
  | { readonly as: "release" }
  | { readonly as: "fail"; readonly reason: string }
  | { readonly as: "rerun"; readonly delayMs?: number; readonly payload?: Uint8Array };

/** One lease to settle. */
export type Settlement = Settle & { readonly token: Uint8Array };

/**
 * What became of a settlement.
 *
 * - `SETTLED`: it counts. Where the job ended, its key is free.
 * - `ALREADY_SETTLED`: the job had ended already; most likely an earlier try of this settlement counted.
 * - `LEASE_LOST`: the lease was lost before. Nothing was changed.
 * - `TRY_AGAIN`: the server could not tell: send the same settlement again.
 * - `INVALID_LEASE`: the token is malformed or forged.
 * - `REJECTED`: it breaks a limit, or is one that the server does not serve; `error` says which.
 */
export type Settled =
  | {
      readonly outcome: Exclude<keyof typeof WireSettled, "UNSPECIFIED" | "REJECTED">;
      readonly error?: never;
    }
  | { readonly outcome: "REJECTED"; readonly error: KeyworkError };

const DEFAULT_WAIT_MS = 20_000;

export async function pull(core: Core, queue: string, options: PullOptions): Promise<Leased[]> {
  const request = create(PullRequestSchema, {
    queue,
    maxJobs: uint32(options.maxJobs ?? 0, "maxJobs"),
    workerId: options.workerId ?? "",
  });
  if (options.waitMs !== undefined) request.wait = durationOf(options.waitMs, "waitMs");
  const limit = (options.waitMs ?? DEFAULT_WAIT_MS) + core.options.callTimeoutMs;
  const answer = await core.call((clients, call) => clients.workQueue.pull(request, call), options, limit);
  return answer.deliveries.map(leasedOf);
}

export async function heartbeat(
  core: Core,
  tokens: readonly Uint8Array[],
  options: CallOptions,
): Promise<LeaseExtension[]> {
  const request = { leaseTokens: [...tokens] };
  const answer = await core.call((clients, call) => clients.workQueue.heartbeat(request, call), options);
  return answer.results.map(extensionOf);
}

export async function ack(
  core: Core,
  settlements: readonly Settlement[],
  options: CallOptions,
): Promise<Settled[]> {
  const request = { settlements: settlements.map((one) => wireSettlement(one.token, one)) };
  const answer = await core.call((clients, call) => clients.workQueue.ack(request, call), options);
  return answer.results.map(settledOf);
}

function leasedOf(wire: Delivery): Leased {
  return {
    token: new Uint8Array(wire.leaseToken),
    job: new Job(deliveredJob(wire)),
    timeLeftMs: msOf(wire.timeLeft),
  };
}

/** The job of a delivery, with what the delivery itself says of it. */
export function deliveredJob(wire: Delivery) {
  const { attempt, fencingNumber } = wire;
  return { ...(wire.job === undefined ? noJob() : jobFields(wire.job)), attempt, fencingNumber };
}

function extensionOf(wire: HeartbeatResult): LeaseExtension {
  const token = new Uint8Array(wire.leaseToken);
  if (wire.lost !== WireLostReason.UNSPECIFIED) return { outcome: "LOST", reason: lostReason(wire.lost) };
  if (wire.timeLeft === undefined || wire.tryAgain) return { outcome: "TRY_AGAIN", token };
  return { outcome: "EXTENDED", token, timeLeftMs: msOf(wire.timeLeft) };
}

/** The reason as the wire has it. */
export function lostReason(wire: WireLostReason): LostReason {
  const name = WireLostReason[wire] as keyof typeof WireLostReason | undefined;
  return name === undefined || name === "UNSPECIFIED" ? "UNKNOWN" : name;
}

/** A settlement as the wire has it. */
export function wireSettlement(
  leaseToken: Uint8Array,
  settle: Settle,
): MessageInitShape<typeof SettlementSchema> {
  return { leaseToken, outcome: wireOutcome(settle) };
}

function wireOutcome(settle: Settle): NonNullable<MessageInitShape<typeof SettlementSchema>["outcome"]> {
  switch (settle.as) {
    case "complete":
      return { case: "complete", value: {} };
    case "retry":
      return { case: "retry", value: { ...delayOf(settle), error: settle.error ?? "" } };
    case "release":
      return { case: "release", value: {} };
    case "fail":
      return { case: "fail", value: { error: settle.reason } };
    case "rerun":
      return {
        case: "rerun",
        value: { ...delayOf(settle), ...(settle.payload && { payload: settle.payload }) },
      };
  }
}

function delayOf({ delayMs }: { readonly delayMs?: number }) {
  return delayMs === undefined ? {} : { delay: durationOf(delayMs, "delayMs") };
}

function settledOf(wire: SettlementResult): Settled {
  const name = WireSettled[wire.outcome] as keyof typeof WireSettled | undefined;
  if (name === undefined || name === "UNSPECIFIED") {
    const text = "the server answered with an outcome that this version does not know";
    throw localError("INTERNAL", text).withDoubt(true);
  }
  if (name !== "REJECTED") return { outcome: name };
  const error = wire.error ? itemError(wire.error) : localError("INVALID_ARGUMENT", "rejected");
  return { outcome: name, error };
}
