/** How long, and how often, a submit, which is safe to repeat, is repeated. */
import { setTimeout as sleep } from "node:timers/promises";
import { Backoff } from "../backoff.js";
import type { KeyworkError } from "../errors.js";
import type { Core } from "./core.js";

/** The last try is made so long before the deadline. */
const LAST_TRY_MS = 50;

export class Patience {
  readonly #backoff = new Backoff();
  #deadline: number;
  /** Some try may have had an effect. */
  #doubt = false;
  /** What the try before met. */
  #before: KeyworkError | undefined;

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
    this.#before = undefined;
  }

  /**
   * Waits before the next try, after one that went to the server of that place; throws the error where another try is no
   * use, or the last was made.
   */
  async after(error: KeyworkError, place: number): Promise<void> {
    this.#doubt ||= !error.hasNoSideEffects();
    const pause = pauseWithin(this.leftMs(), Math.max(this.#backoff.next(), error.retryAfterMs ?? 0));
    if (!error.isOutage() || pause === undefined) throw this.#telling(error).withDoubt(this.#doubt);
    this.#before = error;
    this.core.warnOfOutage(error, place);
    await this.pause(pause);
  }

  /** The last try has little time: that it ran out of it tells less than what the one before met. */
  #telling(error: KeyworkError): KeyworkError {
    return error.code === "DEADLINE_EXCEEDED" ? (this.#before ?? error) : error;
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

/** The pause, cut so that a last try is made shortly before the deadline; `undefined`: that one was made. */
export function pauseWithin(leftMs: number, pauseMs: number): number | undefined {
  const left = leftMs - LAST_TRY_MS;
  return left > 0 ? Math.min(pauseMs, left) : undefined;
}
