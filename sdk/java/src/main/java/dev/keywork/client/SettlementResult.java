package dev.keywork.client;

import dev.keywork.errors.KeyworkException;
import dev.keywork.job.SettlementOutcome;
import java.util.Optional;

/**
 * What became of a settlement.
 *
 * @param outcome what became of it
 * @param error why it was rejected, where it was
 */
public record SettlementResult(SettlementOutcome outcome, Optional<KeyworkException> error) {}
