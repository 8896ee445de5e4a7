/**
 * Running jobs: one session with a server, a handler for each job, and the fences around them.
 *
 * A worker keeps its leases alive from a thread of its own, cancels a handler before its lease can have been given to
 * somebody else, reconnects by itself, and stops without losing an attempt. It never settles what a handler returned
 * after its lease was lost.
 */
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { Worker as Thread } from "node:worker_threads";
import { kindOf, shown } from "../fields.js";
import { ownLeaseThread } from "../lease-thread-url.js";
import { quietly } from "../logger.js";
import { callable, graceMs, isFunction, list, whole } from "../options.js";
import { WorkerError, type WorkerErrorParts, workerError } from "./errors.js";
import type { WorkerEvent } from "./events.js";
import { chainOf } from "./handler.js";
import { WorkerLog } from "./logger.js";
import type { Subscription, WorkerOptions } from "./options.js";
import { Order, type QueueShare, type ThreadData, type ToMain, type ToThread } from "./protocol.js";
import { Runner } from "./runner.js";
import { type Counts, Shared } from "./shared.js";

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** Runs the jobs of one or more queues. */
export class Worker implements AsyncDisposable {
  /** Its name, as servers know it. */
  readonly workerId: string;
  readonly #options: WorkerOptions;
  readonly #queues: QueueShare[];
  readonly #concurrency: number;
  readonly #shared: Shared;
  readonly #log: WorkerLog;
  #listenerFailed = false;
  #order = Order.Work;
  #thread: Thread | undefined;
  #running: Promise<void> | undefined;

  /**
   * Nothing is connected yet.
   *
   * @throws {RangeError} A number is out of its range, or there is no queue or one twice.
   * @throws {TypeError} An option has another type.
   */
  constructor(options: WorkerOptions) {
    this.#options = checked(options);
    this.#queues = sharesOf(options.queues);
    this.#concurrency = whole("concurrency", options.concurrency ?? 16, 1, 100_000);
    this.workerId = workerIdOf(options.workerId);
    this.#shared = new Shared(undefined, this.#concurrency);
    this.#log = new WorkerLog(options.logger ?? options.client.options.logger, () => this.healthy());
  }

  /**
   * Works until SIGTERM or SIGINT, then drains. A second signal releases everything and makes this an error.
   *
   * @throws {WorkerError} A lost connection is no error: the worker reconnects.
   */
  async run(): Promise<void> {
    let heard = 0;
    // Counted by themselves: a program that drained by hand before the first signal has not been told to hurry.
    const onSignal = () => (++heard === 1 ? this.drain() : this.releaseAll());
    for (const signal of SIGNALS) process.on(signal, onSignal);
    try {
      await this.#start();
    } finally {
      for (const signal of SIGNALS) process.off(signal, onSignal);
    }
  }

  /**
   * Works until the signal is aborted, then drains. The process's signals are the caller's.
   *
   * @throws {WorkerError} As {@link Worker.run}.
   */
  async runUntil(stop?: AbortSignal): Promise<void> {
    const onAbort = () => this.drain();
    if (stop?.aborted) this.drain();
    stop?.addEventListener("abort", onAbort, { once: true });
    try {
      await this.#start();
    } finally {
      stop?.removeEventListener("abort", onAbort);
    }
  }

  /** Takes no more jobs, finishes what runs within the shutdown grace, and ends `run`. */
  drain(): void {
    this.#give(Order.Drain);
  }

  /**
   * Cancels every handler, releases the jobs of those that end, and ends `run` with `FORCED`: what a second signal does.
   * No program can stop a handler that does not look at its context, so end the process next.
   */
  releaseAll(): void {
    this.#give(Order.ReleaseAll);
  }

  /** True while the session with a server is live. */
  healthy(): boolean {
    return this.#shared.live;
  }

  /** What it has done so far. */
  counts(): Counts {
    return this.#shared.counts();
  }

  /** Drains, and waits for the end of `run`, whose error is `run`'s caller's to see. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.drain();
    await this.#running?.catch(() => undefined);
  }

  #give(order: Order): void {
    if (order <= this.#order) return;
    this.#order = order;
    this.#post({ order });
  }

  #post(message: ToThread): void {
    this.#thread?.postMessage(message);
  }

  #start(): Promise<void> {
    if (this.#running !== undefined) return Promise.reject(new WorkerError("STARTED_BEFORE"));
    this.#running = this.#work();
    return this.#running;
  }

  async #work(): Promise<void> {
    const { interceptors = [], handler, client } = this.#options;
    const chain = chainOf(interceptors, handler, this.#options.tracing ?? client.options.tracing);
    const runner = new Runner(
      chain,
      this.#shared,
      (finished) => this.#post({ finished }),
      (job, run) => this.#log.handlerEnded(job, run),
    );
    const ended = await this.#runThread(runner);
    this.#shared.live = false;
    this.#thread = undefined;
    if (ended.error !== undefined) this.#tell({ type: "failed", error: ended.error });
    const { abandoned, unconfirmed } = ended;
    this.#tell({ type: "stopped", abandoned, unconfirmed });
    if (ended.error !== undefined) throw ended.error;
  }

  /** Runs the lease thread to its end. */
  #runThread(runner: Runner): Promise<Ended<WorkerError>> {
    return new Promise((resolve) => {
      const broken = (cause?: unknown) => {
        runner.cancelAll("LEASE_LOST");
        resolve({ error: new WorkerError("BROKEN", cause), abandoned: runner.running, unconfirmed: 0 });
      };
      let end: Ended<WorkerErrorParts> | undefined;
      let thread: Thread;
      try {
        thread = this.#makeThread();
      } catch (thrown) {
        broken(thrown);
        return;
      }
      this.#thread = thread;
      if (this.#order !== Order.Work) this.#post({ order: this.#order });
      thread.on("message", (messages: ToMain[]) => {
        for (const message of messages) {
          if (message.kind !== "ended") {
            this.#receive(message, runner);
            continue;
          }
          end = message;
          // It has nothing left to do; whatever might still hold it must not hold up `run`.
          void thread.terminate();
        }
      });
      thread.on("error", broken);
      thread.on("exit", () => {
        if (end === undefined) broken();
        else resolve({ ...end, error: end.error && workerError(end.error) });
      });
    });
  }

  #makeThread(): Thread {
    const { client, shutdownGraceMs = 25_000, cancelGraceMs = 1_000, onEvent, leaseThread } = this.#options;
    const workerData: ThreadData = {
      servers: client.options.servers,
      queues: this.#queues,
      concurrency: this.#concurrency,
      shutdownGraceMs,
      cancelGraceMs,
      workerId: this.workerId,
      shared: this.#shared.buffer,
      tellsSettled: onEvent !== undefined,
    };
    // What the program was started with, such as a loader or a tracer, is not for this thread.
    return new Thread(leaseThread ?? ownLeaseThread(), { workerData, execArgv: [], name: "keywork-leases" });
  }

  #receive(message: Exclude<ToMain, { kind: "ended" }>, runner: Runner): void {
    switch (message.kind) {
      case "start":
        runner.start(message);
        break;
      case "cancel":
        runner.cancel(message.lease);
        break;
      case "abort":
        runner.abort();
        break;
      case "event":
        this.#tell(message.event);
        break;
    }
  }

  /** Tells the log and the owner. */
  #tell(event: WorkerEvent): void {
    this.#log.event(event);
    quietly(
      () => this.#options.onEvent?.(event),
      (thrown) => this.#onListenerFailure(thrown),
    );
  }

  #onListenerFailure(thrown: unknown): void {
    if (this.#listenerFailed) return;
    this.#listenerFailed = true;
    this.#log.listenerFailed(thrown);
  }
}

/** How the lease thread ended. */
interface Ended<Error> {
  readonly error: Error | undefined;
  readonly abandoned: number;
  readonly unconfirmed: number;
}

function checked(options: WorkerOptions): WorkerOptions {
  const { client, handler, shutdownGraceMs, cancelGraceMs, interceptors, onEvent } = options;
  // Not by its class, of which a bundled program may have two.
  if (typeof client?.options?.servers !== "object") {
    throw new TypeError(`client must be a Client, not ${kindOf(client)}`);
  }
  callable("handler", handler);
  if (shutdownGraceMs !== undefined) graceMs("shutdownGraceMs", shutdownGraceMs);
  if (cancelGraceMs !== undefined) graceMs("cancelGraceMs", cancelGraceMs);
  if (interceptors !== undefined) list("interceptors", interceptors, "functions", isFunction);
  if (onEvent !== undefined) callable("onEvent", onEvent);
  return options;
}

/** By default the host, the process and chance: people who look at a job see where it runs. */
function workerIdOf(given: string | undefined): string {
  if (given === undefined) return `${hostname().slice(0, 200)}-${process.pid}-${randomUUID().slice(0, 8)}`;
  if (typeof given !== "string") throw new TypeError(`workerId must be a string, not ${kindOf(given)}`);
  const bytes = Buffer.byteLength(given);
  if (bytes >= 1 && bytes <= 256) return given;
  throw new RangeError(`workerId must have 1 to 256 bytes, not ${bytes}`);
}

function sharesOf(queues: WorkerOptions["queues"]): QueueShare[] {
  const shares = list("queues", queues, "names, or of queues with weights", isSubscription).map(shareOf);
  if (shares.length === 0) throw new RangeError("queues must name at least one queue, not none");
  const names = shares.map(({ queue }) => queue);
  const twice = names.find((name, place) => names.indexOf(name) !== place);
  if (twice !== undefined)
    throw new RangeError(`queues must name each queue once, not ${shown(twice)} twice`);
  return shares;
}

function isSubscription(queue: unknown): boolean {
  if (typeof queue === "string") return true;
  return typeof queue === "object" && queue !== null && "queue" in queue && typeof queue.queue === "string";
}

function shareOf(subscription: string | Subscription, place: number): QueueShare {
  if (typeof subscription === "string") return { queue: subscription, weight: 1 };
  const { queue, weight = 1 } = subscription;
  return { queue, weight: whole(`queues[${place}].weight`, weight, 1, 100) };
}
