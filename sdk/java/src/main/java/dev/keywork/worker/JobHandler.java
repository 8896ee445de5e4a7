package dev.keywork.worker;

import dev.keywork.job.Job;
import dev.keywork.job.Outcome;

/** Runs jobs, and says how each attempt ends. */
@FunctionalInterface
public interface JobHandler {
  /**
   * Runs one job.
   *
   * @param context its lease
   * @param job the job
   * @return how the attempt ends
   * @throws Exception the attempt failed: the job is tried again after its backoff, with the exception's text. An
   *     {@code OutcomeException} means the outcome that it carries.
   */
  Outcome handle(JobContext context, Job job) throws Exception;
}
