package dev.keywork.client;

import dev.keywork.job.Job;
import java.time.Duration;

/**
 * A job with its lease.
 *
 * @param token names the lease
 * @param job the job
 * @param timeLeft until the deadline, from when the server sent this: count it from before the call
 */
public record Leased(LeaseToken token, Job job, Duration timeLeft) {}
