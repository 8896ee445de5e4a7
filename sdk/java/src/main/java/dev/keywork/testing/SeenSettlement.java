package dev.keywork.testing;

import dev.keywork.job.Outcome;
import dev.keywork.job.SettlementOutcome;

/**
 * One settlement that a fake server was sent.
 *
 * @param key the key, as long as the server knows the lease
 * @param outcome how the attempt ended
 * @param answer what was, or would have been, answered
 */
public record SeenSettlement(String key, Outcome outcome, SettlementOutcome answer) {}
