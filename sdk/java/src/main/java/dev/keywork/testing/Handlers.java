package dev.keywork.testing;

import dev.keywork.internal.Chain;
import dev.keywork.internal.LeaseContext;
import dev.keywork.internal.Ticks;
import dev.keywork.job.Job;
import dev.keywork.job.JobState;
import dev.keywork.job.Outcome;
import dev.keywork.worker.JobHandler;
import dev.keywork.worker.JobTask;
import java.time.Duration;
import java.util.List;
import java.util.UUID;

/** Runs handlers without a server. */
public final class Handlers {
  private static final Duration LASTING = Duration.ofHours(1);

  private Handlers() {}

  /**
   * Runs a handler on one job, on this thread, with a lease that lasts.
   *
   * @param handler the handler
   * @param job the job
   * @return how the attempt ended, as a worker would settle it
   */
  public static Outcome runOnce(JobHandler handler, Job job) {
    LeaseContext context = new LeaseContext(Ticks.after(Ticks.now(), LASTING));
    return new Chain(List.of(), handler).run(context, job).outcome();
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
