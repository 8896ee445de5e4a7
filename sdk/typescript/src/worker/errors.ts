/** Why a worker stopped, other than because it was asked to. */
import { type ErrorParts, KeyworkError } from "../errors.js";

/**
 * - `REFUSED`: the server refuses what the worker asks for, and would again; `cause` is the server's error.
 * - `SUPERSEDED`: a newer session has the same worker id; going on would only take turns with it.
 * - `FORCED`: it was told to stop at once: handlers were cancelled without a grace, and may be left behind.
 * - `STARTED_BEFORE`: it runs already, or has run: make another.
 * - `BROKEN`: the lease thread could not be started or ended unexpectedly; handlers were cancelled.
 */
export type WorkerErrorKind = "REFUSED" | "SUPERSEDED" | "FORCED" | "STARTED_BEFORE" | "BROKEN";

const TEXTS: Readonly<Record<WorkerErrorKind, string>> = {
  REFUSED: "failed to open the session",
  SUPERSEDED: "failed to go on: a newer worker has the same worker id",
  FORCED: "failed to finish the running jobs: stopped at once",
  STARTED_BEFORE: "failed to start: this worker has been started before",
  BROKEN: "failed to go on: the lease thread could not be started or ended unexpectedly",
};

/** Why a worker stopped, other than because it was asked to. A lost connection is none: the worker reconnects. */
export class WorkerError extends Error {
  override readonly name = "WorkerError";

  constructor(
    readonly kind: WorkerErrorKind,
    cause?: unknown,
  ) {
    const text = cause instanceof Error ? `: ${cause.message}` : "";
    super(`${TEXTS[kind]}${text}`, cause === undefined ? undefined : { cause });
  }
}

/** A worker's error as it crosses threads. */
export interface WorkerErrorParts {
  kind: WorkerErrorKind;
  cause?: ErrorParts;
}

export function workerError({ kind, cause }: WorkerErrorParts): WorkerError {
  return new WorkerError(kind, cause && new KeyworkError(cause));
}
