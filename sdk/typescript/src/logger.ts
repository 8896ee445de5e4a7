/** Where this package logs to, and how often it says that servers are away. */

/** While an outage lasts, how often it is warned of. */
const WARN_EVERY_MS = 30_000;

/**
 * Where a client and a worker log to; `console` is one, and most loggers are. `error` is given where something was
 * thrown, for its stack.
 */
export interface Logger {
  /** Which server a worker is about to connect to. */
  debug?(message: string, error?: unknown): void;
  /** A worker's way: ready, draining, stopped. */
  info?(message: string, error?: unknown): void;
  /** What somebody may have to look at: outages, lost leases, failing handlers. */
  warn(message: string, error?: unknown): void;
  /** A worker that ends with an error throws it, and does not log it too: so nothing, as yet. */
  error?(message: string, error?: unknown): void;
}

/** Where nothing else is said: warnings alone. */
export const WARNINGS: Logger = {
  // biome-ignore lint/suspicious/noConsole: this is where a program that sets no logger is told.
  warn: (message, ...error) => console.warn(error.length === 0 ? message : `${message}\n`, ...error),
};

/** An outage, which is warned of at once and then seldom. Time is an argument. */
export class Outage {
  #warnedAt: number | undefined;

  /** It was warned of. */
  get isKnown(): boolean {
    return this.#warnedAt !== undefined;
  }

  isToBeWarnedOf(at: number): boolean {
    if (this.#warnedAt !== undefined && at - this.#warnedAt < WARN_EVERY_MS) return false;
    this.#warnedAt = at;
    return true;
  }

  /** The next one is warned of at once. */
  isOver(): void {
    this.#warnedAt = undefined;
  }
}

/** Writes a line. What the logger does wrong ends nothing. */
export function say(
  logger: Logger,
  level: "debug" | "info" | "warn",
  text: string,
  ...error: [unknown?]
): void {
  quietly(() => logger[level]?.(`keywork: ${text}`, ...error));
}

/** An error, with the server that it came from. */
export function named(endpoint: string, error: string): string {
  return error.includes(endpoint) ? error : `${endpoint}: ${error}`;
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
