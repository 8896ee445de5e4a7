/** What a handler knows of its lease, and how it learns to stop. */
import { now } from "./clock.js";
import type { CancelReason } from "./shared.js";

/** What a context's signal is aborted with. */
export class CancelledError extends Error {
  override readonly name = "CancelledError";

  constructor(
    /** Why the handler is to stop. */
    readonly reason: CancelReason,
  ) {
    super(`the handler is to stop: ${reason}`);
  }
}

/** What a context looks at. */
export interface LeaseView {
  reason(): CancelReason | undefined;
  /** By the clock of all threads. */
  deadline(): number;
}

/**
 * A handler's view of its lease. When it is cancelled the handler must stop its effects: somebody else may be about to
 * run the job.
 *
 * The signal is aborted by the event loop. A handler that computes for long without yielding to it looks at
 * {@link Context.isCancelled} now and then: that is always up to date.
 */
export class Context {
  #view: LeaseView;
  #controller: AbortController | undefined;
  #fired = false;

  /** @internal */
  constructor(view: LeaseView) {
    this.#view = view;
  }

  /** Aborted when the handler is to stop, with a {@link CancelledError} as its reason. Give it to `fetch` and the like. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#fired) this.fire();
    }
    return this.#controller.signal;
  }

  /** True: the handler is to stop. Can be asked without yielding to the event loop. */
  get isCancelled(): boolean {
    return this.reason !== undefined;
  }

  /** Why the handler is to stop; `undefined` while it is not. */
  get reason(): CancelReason | undefined {
    return this.#view.reason();
  }

  /** Throws a {@link CancelledError} when the handler is to stop. */
  throwIfCancelled(): void {
    const { reason } = this;
    if (reason !== undefined) throw new CancelledError(reason);
  }

  /** How long the handler may go on unless the lease is extended, in milliseconds. Heartbeats move it while it runs. */
  get timeLeftMs(): number {
    return Math.max(0, this.#view.deadline() - now());
  }

  /** When the handler is to stop unless the lease is extended by then. Heartbeats move it while it runs. */
  get deadline(): Date {
    return new Date(Date.now() + this.timeLeftMs);
  }

  /**
   * Aborts the signal. Only the event loop calls this, so that nobody finds a signal aborted between asking for it and
   * listening to it. @internal
   */
  fire(): void {
    this.#fired = true;
    this.#controller?.abort(new CancelledError(this.reason ?? "LEASE_LOST"));
  }

  /** The handler has ended: what it saw last stays. @internal */
  freeze(): void {
    const [reason, deadline] = [this.#view.reason(), this.#view.deadline()];
    this.#view = { reason: () => reason, deadline: () => deadline };
  }
}
