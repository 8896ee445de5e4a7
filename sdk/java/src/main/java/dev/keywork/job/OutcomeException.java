package dev.keywork.job;

/** Thrown by a handler, or by anything that it calls, to end the attempt with an {@link Outcome}. */
public final class OutcomeException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** How the attempt ends. */
  private final transient Outcome outcome;

  /**
   * Ends the attempt with this outcome.
   *
   * @param outcome how the attempt ends
   */
  public OutcomeException(Outcome outcome) {
    super(outcome.toString(), null, false, false);
    this.outcome = outcome;
  }

  /**
   * How the attempt ends.
   *
   * @return the outcome
   */
  public Outcome outcome() {
    return outcome;
  }
}
