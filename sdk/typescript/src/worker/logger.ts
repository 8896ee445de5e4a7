/** What a worker says of itself to the people who run it, whether or not somebody listens to its events. */
import type { Job } from "../job.js";
import { now } from "./clock.js";
import type { WorkerEvent } from "./events.js";
import { textOfThrown } from "./outcome.js";

/** Of one outage, one warning in this time. */
const WARN_EVERY_MS = 30_000;
/** A server that has not answered by then is told of, although it may still answer. */
const SLOW_MS = 1_000;

/**
 * Where a worker logs to; `console` is one, and most loggers are. `error` is given where something was thrown, for its
 * stack.
 */
export interface Logger {
  /** Which server it is about to connect to. */
  debug?(message: string, error?: unknown): void;
  /** Its way: ready, draining, stopped. */
  info?(message: string, error?: unknown): void;
  /** What somebody may have to look at: outages, lost leases, failing handlers. */
  warn(message: string, error?: unknown): void;
  /** A worker that ends with an error throws it, and does not log it too: so nothing, as yet. */
  error?(message: string, error?: unknown): void;
}

/** Where nothing else is said: warnings alone. */
const WARNINGS: Logger = {
  // biome-ignore lint/suspicious/noConsole: this is where a program that sets no logger is told.
  warn: (message, ...error) => console.warn(error.length === 0 ? message : `${message}\n`, ...error),
};

/** Turns what happens into log lines. What the logger does wrong ends nothing. */
export class WorkerLog {
  readonly #logger: Logger;
  /** When the last warning of this outage was given. */
  #warnedAt: number | undefined;
  #slow: NodeJS.Timeout | undefined;

  /** `isLive` tells whether there is a session, whatever of it has been heard here. */
  constructor(
    logger: Logger = WARNINGS,
    private readonly isLive: () => boolean = () => false,
  ) {
    this.#logger = logger;
  }

  event(event: WorkerEvent): void {
    switch (event.type) {
      case "connecting":
        this.#connecting(event.endpoint);
        break;
      case "ready":
        clearTimeout(this.#slow);
        this.#warnedAt = undefined;
        this.#say("info", "ready: the session is open");
        break;
      case "degraded":
        this.#degraded(event.endpoint, event.error);
        break;
      case "draining":
        this.#say("info", "draining: no more jobs are taken");
        break;
      case "stopped":
        this.#stopped(event.abandoned);
        break;
      case "lease_lost":
        this.#say(
          "warn",
          `lost the lease of ${nameOf(event)}: ${event.reason ?? "it was not extended in time"}`,
        );
        break;
      case "settlement_rejected":
        this.#say(
          "warn",
          `the settlement of ${nameOf(event)} was refused, the job is tried again: ${event.error}`,
        );
        break;
      case "handler_ignores_cancellation":
        this.#say(
          "warn",
          `the handler of ${nameOf(event)} still runs ${seconds(event.cancelledForMs)} after it was told to stop`,
        );
        break;
      case "settled":
      case "failed":
        // The one is what usually happens, the other is thrown by `run`.
        break;
    }
  }

  /** A handler threw an ordinary error. The text is in the line too: not every logger shows the second argument. */
  handlerFailed(job: Job, error: unknown): void {
    const { attempt, maxAttempts } = job;
    const which = maxAttempts > 0 ? `${attempt} of ${maxAttempts}` : `${attempt}`;
    this.#say(
      "warn",
      `the handler of ${nameOf(job)} failed at attempt ${which}: ${textOfThrown(error)}`,
      error,
    );
  }

  /** The program's own listener threw. */
  listenerFailed(error: unknown): void {
    this.#say("warn", `onEvent threw, which is told this once: ${textOfThrown(error)}`, error);
  }

  #connecting(endpoint: string): void {
    this.#say("debug", `connecting to ${endpoint}`);
    clearTimeout(this.#slow);
    if (this.#warnedAt !== undefined) return;
    // Where packets are dropped on the way, it takes much longer until a try has failed.
    const tell = () => this.isLive() || this.#say("warn", `no answer yet from ${endpoint}, waiting`);
    this.#slow = setTimeout(tell, SLOW_MS).unref();
  }

  #degraded(endpoint: string, error: string): void {
    clearTimeout(this.#slow);
    const at = now();
    if (this.#warnedAt !== undefined && at - this.#warnedAt < WARN_EVERY_MS) return;
    this.#warnedAt = at;
    const what = error.includes(endpoint) ? error : `${endpoint}: ${error}`;
    this.#say("warn", `no session with a server, trying again: ${what}`);
  }

  #stopped(abandoned: number): void {
    clearTimeout(this.#slow);
    if (abandoned === 0) {
      this.#say("info", "stopped");
      return;
    }
    const handlers = abandoned === 1 ? "1 handler that runs on" : `${abandoned} handlers that run on`;
    this.#say("warn", `stopped, and left behind ${handlers} until the process ends`);
  }

  #say(level: "debug" | "info" | "warn", text: string, ...error: [unknown?]): void {
    quietly(() => this.#logger[level]?.(`keywork: ${text}`, ...error));
  }
}

/** Calls something of the program's. What it throws, at once or by a promise, is given to `onThrow`. */
export function quietly(call: () => unknown, onThrow: (thrown: unknown) => void = () => undefined): void {
  try {
    const returned = call();
    if (returned instanceof Promise) returned.catch(onThrow);
  } catch (thrown) {
    onThrow(thrown);
  }
}

function nameOf({ queue, key }: { readonly queue: string; readonly key: string }): string {
  return `${queue}/${key}`;
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1_000)} s`;
}
