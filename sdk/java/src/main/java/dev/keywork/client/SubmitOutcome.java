package dev.keywork.client;

import dev.keywork.job.Job;

/** How a submit ended. That the key is busy is one of the outcomes, not an error. */
public sealed interface SubmitOutcome {
  /**
   * The job that holds the key; for {@link Duplicate} the one that was accepted before. It comes without its payload.
   *
   * @return the job
   */
  Job job();

  /**
   * Was the offer accepted, now or at an earlier try?
   *
   * @return false: the key is busy and nothing was stored
   */
  default boolean isAccepted() {
    return !(this instanceof AlreadyOutstanding);
  }

  /**
   * The job was accepted and holds the key.
   *
   * @param job the job
   */
  record Created(Job job) implements SubmitOutcome {}

  /**
   * This request id was accepted before.
   *
   * @param job that job, outstanding or ended
   */
  record Duplicate(Job job) implements SubmitOutcome {}

  /**
   * The key is busy; nothing was stored.
   *
   * @param job the job that holds the key
   */
  record AlreadyOutstanding(Job job) implements SubmitOutcome {}

  /**
   * The key will run once more with this payload.
   *
   * @param job the job after whose end it will
   */
  record RerunScheduled(Job job) implements SubmitOutcome {}

  /**
   * The job took the place of one that had not started.
   *
   * @param job the job
   */
  record Replaced(Job job) implements SubmitOutcome {}
}
