/** What the tests share: a gate for handlers, a place for what they saw, waits with a deadline. */
import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import { Bell } from "../src/client/bell.js";
import type { CancelReason, Client, Logger, SubmitAnswer, WorkerEvent } from "../src/index.js";
import { CancelledError, Worker, type WorkerOptions } from "../src/index.js";
import { FakeServer, type FakeServerOptions } from "../src/testing/index.js";

/** How long anything may take. */
const PATIENCE_MS = 20_000;

/** Waits, but not for ever. */
export async function within<T>(what: string, wait: Promise<T>): Promise<T> {
  const over = new AbortController();
  const patience = sleep(PATIENCE_MS, undefined, { signal: over.signal }).then(
    () => Promise.reject(new Error(`waited in vain: ${what}`)),
    () => new Promise<never>(() => undefined),
  );
  try {
    return await Promise.race([wait, patience]);
  } finally {
    over.abort();
  }
}

/** Opens once. */
export class Gate {
  open: () => void = () => undefined;
  readonly opened = new Promise<void>((resolve) => {
    this.open = resolve;
  });
}

/** Something that grows, and can be waited for. */
export class Log<T> {
  readonly all: T[] = [];
  readonly #bell = new Bell();

  add(entry: T): void {
    this.all.push(entry);
    this.#bell.ring();
  }

  async until(what: string, isSo: (all: readonly T[]) => boolean): Promise<readonly T[]> {
    const wait = async () => {
      for (;;) {
        const rung = this.#bell.wait();
        if (isSo(this.all)) return this.all;
        await rung;
      }
    };
    return within(`${what}; log: ${inspect(this.all)}`, wait());
  }
}

/** One line that a worker logged. */
export interface Line {
  readonly level: keyof Logger;
  readonly text: string;
  readonly error?: unknown;
}

export function loggerTo(lines: Log<Line>): Logger {
  const at = (level: keyof Logger) => (text: string, error?: unknown) => lines.add({ level, text, error });
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

/** What a handler of {@link Scene.start} went through. */
export type Step =
  | { readonly started: string }
  | { readonly cancelled: string; readonly reason: CancelReason }
  | { readonly ended: string };

type Options = Partial<Omit<WorkerOptions, "client">>;

/** A server, and workers whose handlers wait at a gate until they are let through or cancelled. */
export class Scene implements AsyncDisposable {
  readonly client: Client;
  readonly steps = new Log<Step>();
  readonly events = new Log<WorkerEvent>();
  /** What the workers logged. */
  readonly lines = new Log<Line>();
  readonly #gate = new AbortController();
  readonly #running: Running[] = [];

  private constructor(readonly server: FakeServer) {
    this.client = server.client();
  }

  static async with(options: FakeServerOptions = {}): Promise<Scene> {
    return new Scene(await FakeServer.start(options));
  }

  /** A server whose leases last no longer than a busy machine keeps to. */
  static withShortLeases(): Promise<Scene> {
    return Scene.with({ leaseDurationMs: 1_500 });
  }

  async submit(...keys: string[]): Promise<void> {
    for (const key of keys) {
      const { accepted } = await this.client.submit({ queue: "q", key });
      if (!accepted) throw new Error(`${key} is busy`);
    }
  }

  worker(options: Options = {}): Worker {
    return new Worker({
      client: this.client,
      queues: ["q"],
      concurrency: 4,
      handler: (context, job) => this.#handle(context.signal, job.key),
      onEvent: (event) => this.events.add(event),
      logger: loggerTo(this.lines),
      ...options,
    });
  }

  /** Starts a worker; unless it has another handler, its handlers wait at the gate. */
  start(options: Options = {}): Running {
    const running = new Running(this.worker(options));
    this.#running.push(running);
    return running;
  }

  async #handle(signal: AbortSignal, key: string): Promise<void> {
    this.steps.add({ started: key });
    const opened = this.#gate.signal;
    await new Promise<void>((resolve) => {
      if (opened.aborted || signal.aborted) resolve();
      opened.addEventListener("abort", () => resolve(), { once: true });
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
    if (!signal.aborted) {
      this.steps.add({ ended: key });
      return;
    }
    const cancelled: unknown = signal.reason;
    if (!(cancelled instanceof CancelledError)) throw new Error("a signal's reason is a CancelledError");
    this.steps.add({ cancelled: key, reason: cancelled.reason });
    throw new Error("stopped before the end");
  }

  openGate(): void {
    this.#gate.abort();
  }

  async untilStarted(count: number): Promise<void> {
    await this.steps.until(
      `${count} handlers`,
      (all) => all.filter((step) => "started" in step).length >= count,
    );
  }

  async untilCancelled(key: string, reason: CancelReason): Promise<void> {
    await this.steps.until(`${key} to be cancelled as ${reason}`, (all) =>
      all.some((step) => "cancelled" in step && step.cancelled === key && step.reason === reason),
    );
  }

  async untilEvent<T extends WorkerEvent["type"]>(
    type: T,
    isIt: (event: Extract<WorkerEvent, { type: T }>) => boolean = () => true,
  ): Promise<Extract<WorkerEvent, { type: T }>> {
    const found = (all: readonly WorkerEvent[]) =>
      all.find(
        (event): event is Extract<WorkerEvent, { type: T }> => event.type === type && isIt(event as never),
      );
    const all = await this.events.until(`the event ${type}`, (all) => found(all) !== undefined);
    return found(all) as Extract<WorkerEvent, { type: T }>;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const running of this.#running) running.worker.releaseAll();
    await Promise.allSettled(this.#running.map((running) => running.end()));
    this.client.close();
    await this.server.stop();
  }
}

/** A worker that runs. */
export class Running {
  readonly #run: Promise<void>;

  constructor(readonly worker: Worker) {
    this.#run = worker.runUntil();
    // Seen by whoever asks for the end.
    this.#run.catch(() => undefined);
  }

  /** Waits for the end that something else has caused. */
  end(): Promise<void> {
    return within("the worker to end", this.#run);
  }

  drain(): Promise<void> {
    this.worker.drain();
    return this.end();
  }
}

export function accepted(answers: readonly SubmitAnswer[]): number {
  return answers.filter((answer) => answer.result?.accepted).length;
}
