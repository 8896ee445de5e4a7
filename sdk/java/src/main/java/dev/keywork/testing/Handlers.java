package dev.keywork.testing;

import dev.keywork.internal.Chain;
import dev.keywork.job.Job;
import dev.keywork.job.JobState;
import dev.keywork.job.Outcome;
import dev.keywork.worker.JobHandler;
import dev.keywork.worker.JobTask;
import java.util.List;
import java.util.UUID;

/** Runs handlers without a server. */
public final class Handlers {
  private Handlers() {}

  /**
   * Runs a handler on one job, on this thread, with a lease that lasts. {@link #start} is for a handler that is to be
   * cancelled.
   *
   * @param handler the handler
   * @param job the job
   * @return how the attempt ended, as a worker would settle it
   */
  public static Outcome runOnce(JobHandler handler, Job job) {
    return new Chain(List.of(), handler).run(HandlerRun.lasting(), job).outcome();
  }

  /**
   * Runs a task on one job, on this thread, with a lease that lasts.
   *
   * @param task the task
   * @param job the job
   * @return how the attempt ended, as a worker would settle it
   */
  public static Outcome runTaskOnce(JobTask task, Job job) {
    return runOnce(task.asHandler(), job);
  }

  /**
   * Runs a handler on one job, on a thread of its own, so that the test can cancel it. It has begun when this returns.
   *
   * @param handler the handler
   * @param job the job
   * @return the run, to be cancelled, and to be asked how it ended
   */
  public static HandlerRun start(JobHandler handler, Job job) {
    return new HandlerRun(handler, job);
  }

  /**
   * Runs a task on one job, on a thread of its own, so that the test can cancel it.
   *
   * @param task the task
   * @param job the job
   * @return the run, to be cancelled, and to be asked how it ended
   */
  public static HandlerRun startTask(JobTask task, Job job) {
    return start(task.asHandler(), job);
  }

  /**
   * A job for {@link #runOnce}: its first attempt, without a payload.
   *
   * @param queue the queue's name
   * @param key the key
   * @return a builder
   */
  public static Job.Builder job(String queue, String key) {
    return Job.builder(queue, key).id(UUID.randomUUID().toString()).state(JobState.LEASED).fencingNumber(1);
  }
}
