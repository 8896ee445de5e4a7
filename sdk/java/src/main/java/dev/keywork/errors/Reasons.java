package dev.keywork.errors;

/**
 * The stable names of what went wrong, as {@link KeyworkException#reason()} gives them.
 *
 * <p>A server may know more than these: treat one that is not here by its {@link KeyworkException#code()}.
 */
public final class Reasons {
  /** A field of the request is malformed or breaks a limit; see {@link KeyworkException#violations()}. */
  public static final String INVALID_FIELD = "INVALID_FIELD";

  /** There is no queue of that name. */
  public static final String QUEUE_NOT_FOUND = "QUEUE_NOT_FOUND";

  /** The key has no outstanding job. */
  public static final String JOB_NOT_FOUND = "JOB_NOT_FOUND";

  /** There is no such dead letter. */
  public static final String DEAD_JOB_NOT_FOUND = "DEAD_JOB_NOT_FOUND";

  /** The key has an outstanding job, and the submit asked for an error in that case. */
  public static final String KEY_BUSY = "KEY_BUSY";

  /** There is a queue of that name with another configuration. */
  public static final String QUEUE_EXISTS = "QUEUE_EXISTS";

  /** The queue still holds jobs or dead letters. */
  public static final String QUEUE_NOT_EMPTY = "QUEUE_NOT_EMPTY";

  /** The queue's stream or consumer was changed in NATS so that a promise would break. */
  public static final String QUEUE_DRIFTED = "QUEUE_DRIFTED";

  /** The queue is at its limit of outstanding jobs. */
  public static final String QUEUE_FULL = "QUEUE_FULL";

  /** NATS has no room. */
  public static final String STORAGE_FULL = "STORAGE_FULL";

  /** NATS is away; nothing was sent to it. */
  public static final String NATS_UNAVAILABLE = "NATS_UNAVAILABLE";

  /** NATS did not answer; what was sent to it may have been stored. */
  public static final String NATS_NO_ANSWER = "NATS_NO_ANSWER";

  /** NATS refused for a reason that the server does not know. */
  public static final String NATS_REFUSED = "NATS_REFUSED";

  /** The server is stopping. */
  public static final String SERVER_DRAINING = "SERVER_DRAINING";

  /** The contract has it, the server does not yet. */
  public static final String NOT_SERVED_YET = "NOT_SERVED_YET";

  /** The stream did not begin with Hello. */
  public static final String HELLO_MISSING = "HELLO_MISSING";

  /** No Hello came in time, or the stream broke before it. */
  public static final String HELLO_LATE = "HELLO_LATE";

  /** The worker was silent for the liveness timeout. */
  public static final String SESSION_SILENT = "SESSION_SILENT";

  /** The worker did not read what it was sent. */
  public static final String SESSION_NOT_READING = "SESSION_NOT_READING";

  /** A newer session has the worker's id. */
  public static final String SESSION_SUPERSEDED = "SESSION_SUPERSEDED";

  /** The session was asked to reconnect, and its grace is over. */
  public static final String SESSION_SENT_AWAY = "SESSION_SENT_AWAY";

  private Reasons() {}
}
