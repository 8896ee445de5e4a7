/**
 * The leases that a worker holds, and until when it may act on each.
 *
 * Pure: time is an argument, nothing here waits or sends. A lease's *fence* is when its handler must have been told to
 * stop; it only moves on an answer of the server, and counts from when the question was sent.
 */
import type { JobFields } from "../../job.js";
import type { Outcome } from "../outcome.js";
import type { CancelReason, Shared } from "../shared.js";

/** What holds for the leases of one queue. */
export interface Terms {
  readonly leaseDurationMs: number;
  readonly disconnectGraceMs: number | undefined;
}

/** How long before the server's deadline a handler is stopped: it needs time to notice. */
export function marginOf(terms: Terms | undefined): number {
  if (terms === undefined) return 0;
  return Math.min(Math.max(terms.leaseDurationMs / 10, 100), 1_000);
}

/** When a handler is to be stopped: the deadline as far as it is known, less the margin. */
export function fenceAt(asked: number, leftMs: number, marginMs: number): number {
  return asked + Math.max(0, leftMs - marginMs);
}

type Phase =
  /** Delivered; no slot was free yet. */
  | { readonly is: "waiting"; readonly job: JobFields }
  /** Its handler runs. */
  | { readonly is: "running" }
  /** Its handler has ended, or never ran; the server has not confirmed the settlement. */
  | { readonly is: "settling"; readonly outcome: Outcome; readonly ran: boolean }
  /** The lease is lost and the handler still runs, in its slot. */
  | { readonly is: "lost"; readonly since: number; reported: boolean };

/** One lease, from its delivery until nothing of it is left here. */
export interface Held {
  readonly id: number;
  readonly token: Uint8Array;
  /** Which of the worker's queues. */
  readonly queue: number;
  readonly key: string;
  readonly jobId: string;
  readonly fencingNumber: bigint;
  phase: Phase;
  fence: number;
  /** Where the handler and this thread meet; -1: it has no slot. */
  slot: number;
}

/** A handler that runs on although its lease was lost. */
export interface Stubborn {
  readonly held: Held;
  readonly cancelledForMs: number;
}

/** The table. */
export class Leases {
  readonly #shared: Shared;
  readonly #all = new Map<number, Held>();
  /** Those that are not lost. */
  readonly #byToken = new Map<string, Held>();
  readonly #freeSlots: number[] = [];
  /** Slots from here on were never used. */
  #nextSlot = 0;
  #serial = 0;
  #occupied = 0;
  #lost = 0;

  constructor(shared: Shared) {
    this.#shared = shared;
  }

  /** Adds a delivery that waits for a slot. */
  insert(token: Uint8Array, queue: number, job: JobFields, fence: number): Held {
    const { key, id: jobId, fencingNumber } = job;
    const id = ++this.#serial;
    // Copied: it would keep the whole message alive.
    const own = new Uint8Array(token);
    const held: Held = {
      id,
      token: own,
      queue,
      key,
      jobId,
      fencingNumber,
      phase: { is: "waiting", job },
      fence,
      slot: -1,
    };
    this.#all.set(id, held);
    this.#byToken.set(nameOf(own), held);
    return held;
  }

  get(id: number): Held | undefined {
    return this.#all.get(id);
  }

  /** The lease of a token, as long as it is not lost. */
  find(token: Uint8Array): Held | undefined {
    return this.#byToken.get(nameOf(token));
  }

  /** How many handler slots are occupied. */
  get occupied(): number {
    return this.#occupied;
  }

  /** How many of them by handlers that have lost their lease. */
  get occupiedByLost(): number {
    return this.#lost;
  }

  /** How many handlers have ended whose settlement the server has not confirmed. */
  get unconfirmed(): number {
    return [...this.held()].filter(({ phase }) => phase.is === "settling" && phase.ran).length;
  }

  get isEmpty(): boolean {
    return this.#all.size === 0;
  }

  /** Every lease that is not lost. */
  held(): IterableIterator<Held> {
    return this.#byToken.values();
  }

  get heldCount(): number {
    return this.#byToken.size;
  }

  /** Waiting → Running: gives the job to start, which now has a slot. */
  start(held: Held): JobFields | undefined {
    if (held.phase.is !== "waiting") return undefined;
    const { job } = held.phase;
    held.phase = { is: "running" };
    held.slot = this.#freeSlots.pop() ?? this.#nextSlot++;
    this.#occupied += 1;
    this.#shared.occupy(held.slot, held.fence);
    return job;
  }

  /** The handler has ended, or did not even run. True: its outcome is to be sent. False: it is dropped. */
  finish(held: Held, outcome: Outcome, ran: boolean): boolean {
    if (held.phase.is === "running") {
      held.phase = { is: "settling", outcome, ran };
      this.#vacate(held);
      return true;
    }
    if (held.phase.is === "lost") {
      this.#all.delete(held.id);
      this.#vacate(held);
      this.#lost -= 1;
    }
    return false;
  }

  #vacate(held: Held): void {
    this.#occupied -= 1;
    this.#freeSlots.push(held.slot);
    held.slot = -1;
  }

  /** Waiting → Settling: the job goes back without having been started. */
  giveBack(held: Held): boolean {
    if (held.phase.is !== "waiting") return false;
    held.phase = { is: "settling", outcome: { as: "release" }, ran: false };
    return true;
  }

  /** Settles a lease otherwise than was refused. */
  settleAs(held: Held, outcome: Outcome): void {
    if (held.phase.is === "settling") held.phase = { ...held.phase, outcome };
  }

  /** The server has confirmed a settlement, or has said that there is nothing to settle. */
  settled(held: Held): boolean {
    if (held.phase.is !== "settling") return false;
    this.#byToken.delete(nameOf(held.token));
    return this.#all.delete(held.id);
  }

  /**
   * A lease is lost: its handler is told by the shared memory. A settlement under way goes on, since the server's answer
   * to it is the truth. True: something was lost.
   */
  lose(held: Held, reason: CancelReason, now: number): boolean {
    if (held.phase.is === "settling" || held.phase.is === "lost") return false;
    if (held.phase.is === "waiting") {
      this.#all.delete(held.id);
    } else {
      held.phase = { is: "lost", since: now, reported: false };
      this.#shared.cancel(held.slot, reason);
      this.#lost += 1;
    }
    this.#byToken.delete(nameOf(held.token));
    return true;
  }

  /** The server answered something that was sent at `asked`: the lease holds for `left` from then on at least. */
  extend(held: Held, asked: number, leftMs: number, marginMs: number): void {
    const fence = fenceAt(asked, leftMs, marginMs);
    if (fence <= held.fence) return;
    held.fence = fence;
    if (held.slot >= 0) this.#shared.setDeadline(held.slot, fence);
  }

  /**
   * The leases whose fence has come, and when the next one comes. Settlements under way have none: they can do no harm
   * late.
   */
  fenced(
    terms: readonly Terms[],
    broke: number | undefined,
    now: number,
  ): { readonly due: readonly Held[]; readonly next: number } {
    const due: Held[] = [];
    let next = Number.POSITIVE_INFINITY;
    for (const held of this.#byToken.values()) {
      if (held.phase.is === "settling") continue;
      const fence = fenceOf(held, terms, broke);
      if (fence <= now) due.push(held);
      else next = Math.min(next, fence);
    }
    return { due, next };
  }

  /** Handlers that run on although their lease was lost `patience` ago, each told once. */
  stubborn(patienceMs: number, now: number): readonly Stubborn[] {
    const found: Stubborn[] = [];
    if (this.#lost === 0) return found;
    for (const held of this.#all.values()) {
      if (held.phase.is !== "lost" || held.phase.reported) continue;
      const cancelledForMs = now - held.phase.since;
      if (cancelledForMs < patienceMs) continue;
      held.phase.reported = true;
      found.push({ held, cancelledForMs });
    }
    return found;
  }

  /** Tells every running handler to stop, by the shared memory; gives them. */
  cancelAll(reason: CancelReason): readonly Held[] {
    const running = [...this.#all.values()].filter((held) => held.phase.is === "running");
    for (const held of running) this.#shared.cancel(held.slot, reason);
    return running;
  }
}

/** Until when a lease may be acted on. `broke` is when the stream did, if it is not live. */
export function fenceOf(held: Held, terms: readonly Terms[], broke: number | undefined): number {
  const grace = terms[held.queue]?.disconnectGraceMs;
  return broke !== undefined && grace !== undefined ? Math.min(held.fence, broke + grace) : held.fence;
}

/** A token as a key of a map: one character for each byte. */
function nameOf(token: Uint8Array): string {
  return Buffer.from(token.buffer, token.byteOffset, token.byteLength).toString("latin1");
}
