package dev.keywork.worker;

import dev.keywork.job.Job;
import dev.keywork.job.Outcome;

/** Runs jobs that are done when it returns. */
@FunctionalInterface
public interface JobTask {
  /**
   * Runs one job.
   *
   * @param context its lease
   * @param job the job
   * @throws Exception the attempt failed: the job is tried again after its backoff, with the exception's text. An
   *     {@code OutcomeException} means the outcome that it carries, as in {@code throw
   *     Outcome.fail("no such user").asException()}.
   */
  void run(JobContext context, Job job) throws Exception;

  /**
   * The same as a handler.
   *
   * @return a handler that completes the job when this returns
   */
  default JobHandler asHandler() {
    return (context, job) -> {
      run(context, job);
      return Outcome.complete();
    };
  }
}
