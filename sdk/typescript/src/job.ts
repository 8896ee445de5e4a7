/** Jobs as a client and a handler see them: plain data, read from the wire. Nothing here talks to a server. */
import { itemError, KeyworkError, localError } from "./errors.js";
import {
  type DeadJob as WireDeadJob,
  DeadReason as WireDeadReason,
  type Job as WireJob,
  JobState as WireJobState,
} from "./generated/keywork/v1/job_pb.js";
import {
  type SubmitResponse,
  SubmitOutcome as WireOutcome,
  type SubmitResult as WireResult,
} from "./generated/keywork/v1/work_queue_pb.js";
import { dateOf, msOf } from "./wire.js";

/** Where a job is in its life. `UNKNOWN`: the server said nothing that this version knows. */
export type JobState = "UNKNOWN" | "SCHEDULED" | "QUEUED" | "LEASED" | "RETRYING" | "DEAD" | "ENDED";

/** Why a job became a dead letter. */
export type DeadReason =
  | "UNKNOWN"
  | "ATTEMPTS_EXHAUSTED"
  | "LEASE_EXPIRED"
  | "FAILED"
  | "EXPIRED"
  | "UNREADABLE";

/** What a {@link Job} is made of. Can be cloned to another thread. */
export interface JobFields {
  /** The job's id: the `requestId` of its submit where one was given. */
  readonly id: string;
  /** The queue's name. */
  readonly queue: string;
  /** What the job is about: at most one job of a key is outstanding in a queue. */
  readonly key: string;
  /** The payload. Empty where a job is only named, as in a submit's result. */
  readonly payload: Uint8Array;
  /** Media type of the payload, as given by the submitter. */
  readonly contentType: string;
  /** The submitter's attributes. */
  readonly attributes: Readonly<Record<string, string>>;
  /** Where the job was in its life when the server answered. */
  readonly state: JobState;
  /** The attempt that runs, or that comes next: the first is 1. */
  readonly attempt: number;
  /** How many attempts it has before it becomes a dead letter. */
  readonly maxAttempts: number;
  /** When it was accepted. */
  readonly submittedAt: Date | undefined;
  /** Not to start before this time. */
  readonly startAt: Date | undefined;
  /** Becomes a dead letter when it has not started by then. */
  readonly expiresAt: Date | undefined;
  /** What the last failed attempt said. */
  readonly lastError: string;
  /** The worker that holds the lease, where the server knows it. */
  readonly holder: string;
  /** Until when the lease holds unless it is extended, by the server's clock. A handler asks its context instead. */
  readonly leaseDeadline: Date | undefined;
  /** Grows with every lease of the key: pass it to what the handler writes to. 0: not leased. */
  readonly fencingNumber: bigint;
  /** How long ago it was accepted, by the server's clock, in milliseconds. */
  readonly ageMs: number | undefined;
}

export interface Job extends JobFields {}

/** One job. */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: every field is assigned from JobFields by the constructor.
export class Job {
  /** @internal */
  constructor(fields: JobFields) {
    Object.assign(this, fields);
  }

  /** The payload as text, read as UTF-8. */
  text(): string {
    return new TextDecoder().decode(this.payload);
  }

  /** The payload read as JSON. What type it has is for the caller to know. */
  json<T = unknown>(): T {
    return JSON.parse(this.text()) as T;
  }

  /** What `JSON.stringify` makes of it: as in the JSON of Protobuf, large numbers are strings and bytes are Base64. */
  toJSON(): object {
    const payload = Buffer.from(this.payload).toString("base64");
    return { ...this, payload, fencingNumber: String(this.fencingNumber) };
  }
}

/** Reads a job. Payload bytes are copied, so that a small job does not keep a large message alive. */
export function jobFields(wire: WireJob): JobFields {
  return {
    id: wire.id,
    queue: wire.queue,
    key: wire.key,
    payload: new Uint8Array(wire.payload),
    contentType: wire.contentType,
    attributes: wire.attributes,
    state: jobState(wire.state),
    attempt: wire.attempt,
    maxAttempts: wire.maxAttempts,
    submittedAt: dateOf(wire.submittedAt),
    startAt: dateOf(wire.startAt),
    expiresAt: dateOf(wire.expiresAt),
    lastError: wire.lastError,
    holder: wire.holder,
    leaseDeadline: dateOf(wire.leaseDeadline),
    fencingNumber: wire.fencingNumber,
    ageMs: wire.age && msOf(wire.age),
  };
}

/** The fields of a job of which nothing is known. */
export function noJob(): JobFields {
  return {
    id: "",
    queue: "",
    key: "",
    payload: new Uint8Array(),
    contentType: "",
    attributes: {},
    state: "UNKNOWN",
    attempt: 0,
    maxAttempts: 0,
    submittedAt: undefined,
    startAt: undefined,
    expiresAt: undefined,
    lastError: "",
    holder: "",
    leaseDeadline: undefined,
    fencingNumber: 0n,
    ageMs: undefined,
  };
}

/** A job of the wire; a server that names none has said nothing of it. */
export function jobOf(wire: WireJob | undefined): Job {
  return new Job(wire === undefined ? noJob() : jobFields(wire));
}

function jobState(wire: WireJobState): JobState {
  const name = WireJobState[wire] as keyof typeof WireJobState | undefined;
  return name === undefined || name === "UNSPECIFIED" ? "UNKNOWN" : name;
}

/** A job that ended as a dead letter. */
export class DeadJob {
  /** @internal */
  constructor(
    /** Names the dead letter within its queue. */
    readonly deadId: bigint,
    /** The job, with payload and attributes. */
    readonly job: Job,
    /** Why it died. */
    readonly reason: DeadReason,
    /** When it died. */
    readonly diedAt: Date | undefined,
  ) {}

  /** What `JSON.stringify` makes of it: as {@link Job.toJSON}. */
  toJSON(): object {
    const { deadId, job, reason, diedAt } = this;
    return { deadId: String(deadId), job, reason, diedAt };
  }
}

export function deadJobOf(wire: WireDeadJob): DeadJob {
  const name = WireDeadReason[wire.reason] as keyof typeof WireDeadReason | undefined;
  const reason = name === undefined || name === "UNSPECIFIED" ? "UNKNOWN" : name;
  return new DeadJob(wire.deadId, jobOf(wire.job), reason, dateOf(wire.diedAt));
}

/**
 * How a submit ended.
 *
 * - `CREATED`: the job was accepted and holds the key.
 * - `DUPLICATE`: this `requestId` was accepted before: here is that job, outstanding or ended.
 * - `ALREADY_OUTSTANDING`: the key is busy with this job; nothing was stored.
 * - `RERUN_SCHEDULED`: the key will run once more with this payload after this job.
 * - `REPLACED`: the job took the place of one that had not started.
 */
export type SubmitOutcome = "CREATED" | "DUPLICATE" | "ALREADY_OUTSTANDING" | "RERUN_SCHEDULED" | "REPLACED";

/** What a submit was answered. */
export interface SubmitResult {
  /** How it ended. */
  readonly outcome: SubmitOutcome;
  /** The job that the outcome names, without its payload. */
  readonly job: Job;
  /** True: what was offered was accepted, now or at an earlier try. False: the key is busy. */
  readonly accepted: boolean;
}

/** How one of many submits ended: a result, or an error that touches it alone. */
export type SubmitAnswer =
  | { readonly result: SubmitResult; readonly error?: never }
  | { readonly result?: never; readonly error: KeyworkError };

/**
 * Reads an answer. `ownId` says that this package made the request id: then a duplicate can only be an earlier try of
 * the same call, whose answer was lost.
 */
export function submitResult(wire: SubmitResponse, ownId: boolean): SubmitResult {
  const name = WireOutcome[wire.outcome] as keyof typeof WireOutcome | undefined;
  if (name === undefined || name === "UNSPECIFIED") {
    const text = "the server answered with an outcome that this version does not know";
    throw localError("INTERNAL", text).withDoubt(true);
  }
  const outcome = name === "DUPLICATE" && ownId ? "CREATED" : name;
  return { outcome, job: jobOf(wire.job), accepted: outcome !== "ALREADY_OUTSTANDING" };
}

/** Reads the result of one item of a batch or a stream. */
export function submitAnswer(wire: WireResult | undefined, ownId: boolean): SubmitAnswer {
  const result = wire?.result;
  if (result?.case === "error") return { error: itemError(result.value) };
  if (result?.case === "response") {
    try {
      return { result: submitResult(result.value, ownId) };
    } catch (error) {
      if (error instanceof KeyworkError) return { error };
      throw error;
    }
  }
  return { error: localError("INTERNAL", "the server gave no result for this item").withDoubt(true) };
}
