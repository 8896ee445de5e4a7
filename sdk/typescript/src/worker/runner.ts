/**
 * Handlers on the main thread: starts them as the lease thread says, tells them to stop, and reports how they ended.
 */
import { setImmediate as yieldToEvents } from "node:timers/promises";
import { Job } from "../job.js";
import { now } from "./clock.js";
import { Context } from "./context.js";
import type { Chain } from "./handler.js";
import type { HandlerRun, Outcome } from "./outcome.js";
import type { Finished, ToMain } from "./protocol.js";
import type { CancelReason, Shared } from "./shared.js";

type Start = Extract<ToMain, { kind: "start" }>;

/** How long ends may lie here while other handlers are being started. */
const REPORT_WITHIN_MS = 5;

export class Runner {
  readonly #chain: Chain;
  readonly #shared: Shared;
  readonly #report: (finished: Finished[]) => void;
  readonly #onEnd: (job: Job, run: HandlerRun) => void;
  readonly #running = new Map<number, { readonly context: Context; readonly slot: number }>();
  #starts: Start[] = [];
  #starting = false;
  #finished: Finished[] = [];
  #reportAsked = false;
  #reportedAt = 0;

  /** `report` is told how handlers ended; `onEnd`, for the log, of each whose end counts. */
  constructor(
    chain: Chain,
    shared: Shared,
    report: (finished: Finished[]) => void,
    onEnd: (job: Job, run: HandlerRun) => void,
  ) {
    this.#chain = chain;
    this.#shared = shared;
    this.#report = report;
    this.#onEnd = onEnd;
  }

  /** How many handlers run. */
  get running(): number {
    return this.#running.size;
  }

  start(start: Start): void {
    this.#starts.push(start);
    if (!this.#starting) void this.#startAll();
  }

  /**
   * Starts one after another, and lets the event loop turn in between: no handler holds up another's end, nor what came
   * to it meanwhile.
   */
  async #startAll(): Promise<void> {
    this.#starting = true;
    for (let start = this.#starts.shift(); start !== undefined; start = this.#starts.shift()) {
      this.#startOne(start);
      await yieldToEvents();
      if (now() - this.#reportedAt > REPORT_WITHIN_MS) this.#reportNow();
    }
    this.#starting = false;
  }

  #startOne({ lease, slot, job }: Start): void {
    // The lease was lost, or the worker stopped, while this thread had no time to start it.
    if (this.#shared.reason(slot) !== undefined) {
      this.#ended(lease, { as: "release" }, false);
      return;
    }
    const shared = this.#shared;
    const context = new Context({
      reason: () => shared.reason(slot),
      deadline: () => shared.deadline(slot),
    });
    this.#running.set(lease, { context, slot });
    // Its fate: it never throws, and reports by itself.
    void this.#run(lease, context, new Job(job));
  }

  async #run(lease: number, context: Context, job: Job): Promise<void> {
    const run = await this.#chain(context, job);
    this.#running.delete(lease);
    context.freeze();
    this.#ended(lease, run.outcome, true);
    // The rest is dropped.
    if (context.reason === undefined || context.reason === "WORKER_SHUTDOWN") this.#onEnd(job, run);
  }

  #ended(lease: number, outcome: Outcome, ran: boolean): void {
    this.#finished.push({ lease, outcome, ran });
    if (this.#reportAsked) return;
    this.#reportAsked = true;
    setImmediate(() => {
      this.#reportAsked = false;
      this.#reportNow();
    });
  }

  #reportNow(): void {
    if (this.#finished.length === 0) return;
    this.#reportedAt = now();
    const finished = this.#finished;
    this.#finished = [];
    this.#report(finished);
  }

  /** The shared memory says that a handler is to stop: aborts its signal. */
  cancel(lease: number): void {
    this.#running.get(lease)?.context.fire();
  }

  /**
   * Gives back what has not started, and tells the rest to stop. What runs on is not released: nobody else may run its
   * job beside it.
   */
  abort(): void {
    for (const { lease } of this.#starts) this.#ended(lease, { as: "release" }, false);
    this.#starts = [];
    for (const { context } of this.#running.values()) context.fire();
    this.#reportNow();
  }

  /** Tells every handler to stop, and starts no more, without the lease thread: it is not there any more. */
  cancelAll(reason: CancelReason): void {
    this.#starts = [];
    for (const { context, slot } of this.#running.values()) {
      this.#shared.cancel(slot, reason);
      context.fire();
    }
  }
}
