package dev.keywork.job;

/** Where a job is in its life. */
public enum JobState {
  /** The server did not say, or said something that this version does not know. */
  UNKNOWN,
  /** Accepted; not to start before a time that is still to come. */
  SCHEDULED,
  /** Waiting for a worker. */
  QUEUED,
  /** A worker holds a lease of it. */
  LEASED,
  /** An attempt failed; the next one waits for its time. */
  RETRYING,
  /** Used up its attempts or was failed. */
  DEAD,
  /** Ended; nothing of it is outstanding. */
  ENDED
}
