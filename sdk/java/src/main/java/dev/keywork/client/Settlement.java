package dev.keywork.client;

import dev.keywork.job.Outcome;

/**
 * Settles a lease.
 *
 * @param token the lease
 * @param outcome how
 */
public record Settlement(LeaseToken token, Outcome outcome) {}
