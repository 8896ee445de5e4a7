package dev.keywork.worker;

import dev.keywork.errors.KeyworkException;

/** Why a worker stopped, other than because it was asked to. */
public final class WorkerException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** What kind of end it is. */
  private final Kind kind;

  /** The kinds of ends. */
  public enum Kind {
    /** The server refuses what the worker asks for, and would again: the cause is a {@link KeyworkException}. */
    REFUSED,
    /** A newer session has the same worker id; going on would only take turns with it. */
    SUPERSEDED,
    /** It was told to stop at once: handlers were interrupted and their jobs released. */
    FORCED,
    /** It runs already, or has run: make another. */
    STARTED_BEFORE,
    /** The worker's loop ended unexpectedly; handlers were cancelled. */
    BROKEN
  }

  WorkerException(Kind kind, String message, Throwable cause) {
    super(message, cause);
    this.kind = kind;
  }

  static WorkerException refused(KeyworkException error) {
    return new WorkerException(Kind.REFUSED, "failed to open the session: " + error.getMessage(), error);
  }

  static WorkerException superseded(String workerId) {
    return new WorkerException(
        Kind.SUPERSEDED, "failed to go on: a newer worker has the same worker id, " + workerId, null);
  }

  static WorkerException forced() {
    return new WorkerException(Kind.FORCED, "failed to finish the running jobs: stopped at once", null);
  }

  static WorkerException startedBefore() {
    return new WorkerException(
        Kind.STARTED_BEFORE, "failed to start: this worker has been started before", null);
  }

  static WorkerException broken(Throwable cause) {
    return new WorkerException(Kind.BROKEN, "failed to go on: the worker's loop ended unexpectedly", cause);
  }

  /** The same error with this thread's stack. */
  WorkerException here() {
    return new WorkerException(kind, getMessage(), getCause() == null ? this : getCause());
  }

  /**
   * What kind of end it is.
   *
   * @return the kind
   */
  public Kind kind() {
    return kind;
  }
}
