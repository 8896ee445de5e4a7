/**
 * What the lease thread and the main thread share without sending messages: why each handler is to stop, until when
 * its lease holds, counts, and whether the session is live.
 *
 * A handler that burns CPU keeps the main thread from taking messages, but it can still look here.
 */

/**
 * Why a handler is to stop.
 *
 * - `LEASE_LOST`: the lease is lost, or can no longer be known to hold. What the handler returns is dropped.
 * - `JOB_CANCELLED`: the job was cancelled, or its queue purged or deleted. What the handler returns is dropped.
 * - `WORKER_SHUTDOWN`: the worker is stopping and its grace is over. What the handler returns counts; an ordinary
 *   error gives the job back without costing an attempt.
 */
export type CancelReason = "LEASE_LOST" | "JOB_CANCELLED" | "WORKER_SHUTDOWN";

/** All reasons. */
export const REASONS: readonly CancelReason[] = ["LEASE_LOST", "JOB_CANCELLED", "WORKER_SHUTDOWN"];

/** What a worker has done since it was made. */
export interface Counts {
  /** Handlers started. */
  readonly started: number;
  /** Leases whose settlement was confirmed. */
  readonly settled: number;
  /** Leases lost before they were settled. */
  readonly leasesLost: number;
  /** Results of handlers that came after their lease was lost, and were dropped. */
  readonly droppedResults: number;
  /** Sessions that were opened. */
  readonly sessions: number;
}

const COUNTERS = ["started", "settled", "leasesLost", "droppedResults", "sessions"] as const;
const HEADER_BYTES = 8 * COUNTERS.length;

export class Shared {
  /** Can be handed to another thread, and read there by `new Shared(buffer, slots)`. */
  readonly buffer: SharedArrayBuffer;
  readonly #counters: BigInt64Array;
  /** In microseconds, by the clock of all threads. */
  readonly #deadlines: BigInt64Array;
  /** Of each slot: 0, or the number of the reason. After the slots: 1 while the session is live. */
  readonly #flags: Int32Array;

  constructor(
    buffer: SharedArrayBuffer | undefined,
    readonly slots: number,
  ) {
    this.buffer = buffer ?? new SharedArrayBuffer(HEADER_BYTES + slots * 8 + (slots + 1) * 4);
    this.#counters = new BigInt64Array(this.buffer, 0, COUNTERS.length);
    this.#deadlines = new BigInt64Array(this.buffer, HEADER_BYTES, slots);
    this.#flags = new Int32Array(this.buffer, HEADER_BYTES + slots * 8, slots + 1);
  }

  count(counter: keyof Counts): void {
    Atomics.add(this.#counters, COUNTERS.indexOf(counter), 1n);
  }

  counts(): Counts {
    const read = (counter: keyof Counts) => Number(Atomics.load(this.#counters, COUNTERS.indexOf(counter)));
    return {
      started: read("started"),
      settled: read("settled"),
      leasesLost: read("leasesLost"),
      droppedResults: read("droppedResults"),
      sessions: read("sessions"),
    };
  }

  get live(): boolean {
    return Atomics.load(this.#flags, this.slots) === 1;
  }

  set live(live: boolean) {
    Atomics.store(this.#flags, this.slots, live ? 1 : 0);
  }

  /** A handler is about to start in this slot. */
  occupy(slot: number, deadline: number): void {
    this.setDeadline(slot, deadline);
    Atomics.store(this.#flags, slot, 0);
  }

  setDeadline(slot: number, deadline: number): void {
    Atomics.store(this.#deadlines, slot, BigInt(Math.floor(deadline * 1_000)));
  }

  deadline(slot: number): number {
    return Number(Atomics.load(this.#deadlines, slot)) / 1_000;
  }

  /** The handler in this slot is to stop; the first reason stays. */
  cancel(slot: number, reason: CancelReason): void {
    Atomics.compareExchange(this.#flags, slot, 0, REASONS.indexOf(reason) + 1);
  }

  reason(slot: number): CancelReason | undefined {
    return REASONS[Atomics.load(this.#flags, slot) - 1];
  }
}
