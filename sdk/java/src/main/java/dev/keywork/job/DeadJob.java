package dev.keywork.job;

import java.time.Instant;
import java.util.Optional;

/**
 * A job that ended as a dead letter.
 *
 * @param deadId names the dead letter within its queue
 * @param job the job, with payload and attributes
 * @param reason why it died
 * @param diedAt when it died
 */
public record DeadJob(long deadId, Job job, DeadReason reason, Optional<Instant> diedAt) {}
