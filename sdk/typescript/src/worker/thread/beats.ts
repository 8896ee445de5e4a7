/**
 * Heartbeats on their way: what each listed, when it was sent, and what its answer proves.
 *
 * Pure: time is an argument.
 */

/** The most leases that one heartbeat lists, so that its message stays under the usual limit of 4 MiB. */
export const LISTED = 8_000;

/** One heartbeat that is not answered yet. */
interface Beat {
  readonly sequence: bigint;
  readonly sent: number;
  readonly leases: readonly number[];
}

/** The heartbeats of a session. */
export class Beats {
  #sequence = 0n;
  #unanswered: Beat[] = [];

  /**
   * When the newest question was sent whose answer has arrived. What the server sends from now on was sent after that,
   * so a time left that it tells counts from then at the earliest.
   */
  basis: number;

  constructor(now: number) {
    this.basis = now;
  }

  /** A session opened whose Hello was sent then. */
  opened(helloSent: number): void {
    this.#unanswered = [];
    this.basis = helloSent;
  }

  /** Notes a heartbeat that is being sent; gives its sequence. */
  sent(leases: readonly number[], now: number): bigint {
    this.#sequence += 1n;
    this.#unanswered.push({ sequence: this.#sequence, sent: now, leases });
    return this.#sequence;
  }

  /** The heartbeats that an answer to `sequence` answers: when each was sent, and what it listed. */
  answered(sequence: bigint): readonly Beat[] {
    const later = this.#unanswered.findIndex((beat) => beat.sequence > sequence);
    const beats = this.#unanswered.splice(0, later === -1 ? this.#unanswered.length : later);
    const newest = beats.at(-1);
    if (newest !== undefined) this.basis = newest.sent;
    return beats;
  }
}
