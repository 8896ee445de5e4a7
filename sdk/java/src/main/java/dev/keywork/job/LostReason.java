package dev.keywork.job;

/** Why a lease was lost. */
public enum LostReason {
  /** The server gave a reason that this version does not know. */
  UNKNOWN,
  /** Its deadline passed, or the job ended or was given to another. */
  EXPIRED,
  /** The job was cancelled, its queue purged or deleted. */
  CANCELLED,
  /** A newer session of the same worker did not go on with it. */
  SUPERSEDED,
  /** The token is malformed, forged or of another queue's making. */
  INVALID
}
