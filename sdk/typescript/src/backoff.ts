/** How long to wait before the next try. */

const SHORTEST_MS = 100;
const LONGEST_MS = 10_000;

/**
 * Waits with full jitter between 100 ms and a bound that doubles up to 10 s, so that many clients of a server that
 * went away do not come back at once.
 */
export class Backoff {
  #tries = 0;

  /** The next wait. */
  next(): number {
    this.#tries += 1;
    const bound = Math.min(SHORTEST_MS * 2 ** Math.min(this.#tries, 10), LONGEST_MS);
    return SHORTEST_MS + Math.random() * (bound - SHORTEST_MS);
  }

  /** The last try worked: the next wait is short again. */
  reset(): void {
    this.#tries = 0;
  }
}

/** A wait around `middle`: from half of it to half more. */
export function around(middle: number): number {
  return middle * (0.5 + Math.random());
}
