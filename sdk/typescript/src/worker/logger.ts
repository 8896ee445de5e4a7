/** What a worker says of itself to the people who run it, whether or not somebody listens to its events. */
import type { Job } from "../job.js";
import { type Logger, named, Outage, say, WARNINGS } from "../logger.js";
import { now } from "./clock.js";
import type { WorkerEvent } from "./events.js";
import { type HandlerRun, textOfThrown } from "./outcome.js";

/** A server that has not answered by then is told of, although it may still answer. */
const SLOW_MS = 1_000;

/** Turns what happens into log lines. What the logger does wrong ends nothing. */
export class WorkerLog {
  readonly #logger: Logger;
  readonly #outage = new Outage();
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
        this.#outage.isOver();
        this.#say("info", "ready: the session is open");
        break;
      case "degraded":
        this.#degraded(event.endpoint, event.error);
        break;
      case "draining":
        this.#say("info", "draining: no more jobs are taken");
        break;
      case "stopped":
        this.#stopped(event.abandoned, event.unconfirmed);
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

  /** A handler ended, and its end counts: says so where it threw an ordinary error, or the job is dead. */
  handlerEnded(job: Job, { outcome, error }: HandlerRun): void {
    const isLast = job.maxAttempts > 0 && job.attempt >= job.maxAttempts;
    if (outcome.as === "fail") this.#failed(job, true, outcome.reason);
    else if (outcome.as !== "retry") return;
    // The text is in the line too: not every logger shows the second argument.
    else if (!outcome.chosen) this.#failed(job, isLast, textOfThrown(error), error);
    else if (isLast) this.#failed(job, true, outcome.error);
  }

  #failed(job: Job, isDead: boolean, text: string, ...error: [unknown?]): void {
    const { attempt, maxAttempts } = job;
    const which = maxAttempts > 0 ? `${attempt} of ${maxAttempts}` : `${attempt}`;
    const follows = isDead ? "it is a dead letter" : "the job is tried again";
    this.#say(
      "warn",
      `the handler of ${nameOf(job)} failed at attempt ${which}, ${follows}: ${text}`,
      ...error,
    );
  }

  /** The program's own listener threw. */
  listenerFailed(error: unknown): void {
    this.#say("warn", `onEvent threw, which is told this once: ${textOfThrown(error)}`, error);
  }

  #connecting(endpoint: string): void {
    this.#say("debug", `connecting to ${endpoint}`);
    clearTimeout(this.#slow);
    if (this.#outage.isKnown) return;
    // Where packets are dropped on the way, it takes much longer until a try has failed.
    const tell = () => this.isLive() || this.#say("warn", `no answer yet from ${endpoint}, waiting`);
    this.#slow = setTimeout(tell, SLOW_MS).unref();
  }

  #degraded(endpoint: string, error: string): void {
    clearTimeout(this.#slow);
    if (!this.#outage.isToBeWarnedOf(now())) return;
    this.#say("warn", `no session with a server, trying again: ${named(endpoint, error)}`);
  }

  #stopped(abandoned: number, unconfirmed: number): void {
    clearTimeout(this.#slow);
    if (abandoned > 0) {
      const handlers = abandoned === 1 ? "1 handler that runs on" : `${abandoned} handlers that run on`;
      this.#say("warn", `stopped, and left behind ${handlers} until the process ends`);
    }
    if (unconfirmed > 0) {
      const results = `unconfirmed results of handlers: ${unconfirmed}`;
      this.#say("warn", `stopped, ${results}; their jobs run again when their leases are over`);
    }
    if (abandoned === 0 && unconfirmed === 0) this.#say("info", "stopped");
  }

  #say(level: "debug" | "info" | "warn", text: string, ...error: [unknown?]): void {
    say(this.#logger, level, text, ...error);
  }
}

function nameOf({ queue, key }: { readonly queue: string; readonly key: string }): string {
  return `${queue}/${key}`;
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1_000)} s`;
}
