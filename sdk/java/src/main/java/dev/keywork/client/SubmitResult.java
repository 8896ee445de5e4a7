package dev.keywork.client;

import dev.keywork.errors.KeyworkException;
import java.util.Optional;

/** How one of many submits ended: answered with an outcome, or failed, which spoils no other. */
public sealed interface SubmitResult {
  /**
   * The outcome.
   *
   * @return the outcome
   * @throws KeyworkException this submit failed
   */
  SubmitOutcome outcome();

  /**
   * The error.
   *
   * @return the error, where this submit failed
   */
  Optional<KeyworkException> error();

  /**
   * The submit was answered.
   *
   * @param outcome the outcome
   */
  record Answered(SubmitOutcome outcome) implements SubmitResult {
    @Override
    public Optional<KeyworkException> error() {
      return Optional.empty();
    }
  }

  /**
   * The submit failed.
   *
   * @param cause the error
   */
  record Failed(KeyworkException cause) implements SubmitResult {
    @Override
    public SubmitOutcome outcome() {
      throw cause;
    }

    @Override
    public Optional<KeyworkException> error() {
      return Optional.of(cause);
    }
  }
}
