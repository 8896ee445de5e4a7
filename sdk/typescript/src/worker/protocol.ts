/** What the main thread and the lease thread say to each other: plain data, in batches. */
import type { Servers } from "../client/options.js";
import type { JobFields } from "../job.js";
import type { WorkerErrorParts } from "./errors.js";
import type { ThreadEvent } from "./events.js";
import type { Outcome } from "./outcome.js";

/** What was asked of a worker; it only grows. */
export enum Order {
  Work = 0,
  Drain = 1,
  ReleaseAll = 2,
}

/** One queue that a worker serves. */
export interface QueueShare {
  queue: string;
  weight: number;
}

/** What the lease thread is started with. */
export interface ThreadData {
  servers: Servers;
  queues: QueueShare[];
  concurrency: number;
  shutdownGraceMs: number;
  cancelGraceMs: number;
  workerId: string;
  shared: SharedArrayBuffer;
  /** Somebody listens to events: those of settlements, which come with every job, are of use. */
  tellsSettled: boolean;
}

/** From the lease thread. */
export type ToMain =
  /** Start the handler of this lease. */
  | { kind: "start"; lease: number; slot: number; job: JobFields }
  /** The handler is to stop: the shared memory says why. */
  | { kind: "cancel"; lease: number }
  /** Report what has not started as released, and tell every handler to stop. */
  | { kind: "abort" }
  | { kind: "event"; event: ThreadEvent }
  /** The last message. */
  | { kind: "ended"; error: WorkerErrorParts | undefined; abandoned: number; unconfirmed: number };

/** A handler has ended. */
export interface Finished {
  lease: number;
  outcome: Outcome;
  /** False: it was not even started, since it was to stop already. */
  ran: boolean;
}

/** From the main thread. */
export interface ToThread {
  finished?: Finished[];
  order?: Order;
}
