package dev.keywork.worker;

import dev.keywork.job.Job;
import dev.keywork.job.Outcome;

/** Wraps every handler call: for tracing, metrics, resources. */
@FunctionalInterface
public interface HandlerInterceptor {
  /**
   * Does what is to be done around {@code next}.
   *
   * @param context the job's lease
   * @param job the job
   * @param next the interceptors after this one, and then the handler
   * @return what {@code next} returned, or another outcome
   * @throws Exception as a handler does
   */
  Outcome intercept(JobContext context, Job job, JobHandler next) throws Exception;
}
