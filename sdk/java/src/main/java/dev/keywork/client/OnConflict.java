package dev.keywork.client;

/** What to do when the key has an outstanding job already. */
public enum OnConflict {
  /** Answer {@link SubmitOutcome.AlreadyOutstanding}. */
  REJECT,
  /** Run the key once more after the current job, with the newest payload. */
  RERUN,
  /** Take the place of a job that has not started. */
  REPLACE,
  /** Answer with an error of the code {@code ALREADY_EXISTS}. */
  FAIL
}
