/** How long, and how often, a submit, which is safe to repeat, is repeated. */
import { setTimeout as sleep } from "node:timers/promises";
import { Backoff } from "../backoff.js";
import type { KeyworkError } from "../errors.js";
import type { Core } from "./core.js";

/** What a try is given at least: one that ends sooner would tell nothing, and hide what the one before told. */
const SHORTEST_TRY_MS = 50;

export class Patience {
  readonly #backoff = new Backoff();
  #deadline: number;
  /** Some try may have had an effect. */
  #doubt = false;

  constructor(
    private readonly core: Core,
    private readonly signal: AbortSignal | undefined,
  ) {
    this.#deadline = performance.now() + core.options.submitDeadlineMs;
  }

  /** How much of it is left. */
  leftMs(): number {
    return this.#deadline - performance.now();
  }

  /** Something was answered: count from here again. */
  renew(): void {
    this.#deadline = performance.now() + this.core.options.submitDeadlineMs;
    this.#backoff.reset();
  }

  /**
   * Waits before the next try, after one that went to the server of that place; throws the error where another try is no
   * use or comes too late.
   */
  async after(error: KeyworkError, place: number): Promise<void> {
    this.#doubt ||= !error.hasNoSideEffects();
    const pause = Math.max(this.#backoff.next(), error.retryAfterMs ?? 0);
    if (!error.isOutage() || pause + SHORTEST_TRY_MS >= this.leftMs()) throw error.withDoubt(this.#doubt);
    this.core.warnOfOutage(error, place);
    await this.pause(pause);
  }

  private async pause(ms: number): Promise<void> {
    try {
      await sleep(ms, undefined, this.signal && { signal: this.signal });
    } catch (thrown) {
      this.signal?.throwIfAborted();
      throw thrown;
    }
  }
}
