package dev.keywork.job;

/** Why a job became a dead letter. */
public enum DeadReason {
  /** The server did not say, or said something that this version does not know. */
  UNKNOWN,
  /** Its last allowed attempt failed. */
  ATTEMPTS_EXHAUSTED,
  /** Its last allowed attempt ended because the lease ran out. */
  LEASE_EXPIRED,
  /** A handler failed it for good. */
  FAILED,
  /** It had not started when its time to expire came. */
  EXPIRED,
  /** What is stored could not be read as a job. */
  UNREADABLE
}
