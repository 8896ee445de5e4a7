package dev.keywork.job;

import java.time.Duration;
import java.util.Objects;
import java.util.Optional;

/** How an attempt at a job ends: what a handler returns, and what a lease is settled with. */
public sealed interface Outcome {
  /** The job is done; its key is free. */
  record Complete() implements Outcome {}

  /**
   * The attempt failed; the job is tried again, or becomes a dead letter when its attempts are used up.
   *
   * @param delay the wait before the next attempt; empty: the job's backoff
   * @param error what went wrong; at most 2,048 bytes are kept
   */
  record Retry(Optional<Duration> delay, String error) implements Outcome {
    /**
     * Takes what exceptions without a message give: a null counts as nothing said.
     *
     * @param delay the wait before the next attempt; empty: the job's backoff
     * @param error what went wrong
     */
    public Retry {
      Objects.requireNonNull(delay, "delay");
      error = error == null ? "" : error;
    }

    /**
     * The same, saying what went wrong.
     *
     * @param text what went wrong
     * @return the same with that text
     */
    public Retry because(String text) {
      return new Retry(delay, text);
    }
  }

  /**
   * The job becomes a dead letter now.
   *
   * @param reason why; at most 2,048 bytes are kept
   */
  record Fail(String reason) implements Outcome {
    /**
     * Takes what exceptions without a message give: a null counts as nothing said.
     *
     * @param reason why
     */
    public Fail {
      reason = reason == null ? "" : reason;
    }
  }

  /** The job goes back to the queue at once; costs no attempt. */
  record Release() implements Outcome {}

  /**
   * The job is done, and its key runs again.
   *
   * @param delay the wait before it
   * @param payload the payload of the next job; empty: the same
   */
  record Rerun(Duration delay, Optional<Payload> payload) implements Outcome {
    /**
     * Checks that nothing is null.
     *
     * @param delay the wait before it
     * @param payload the payload of the next job; empty: the same
     */
    public Rerun {
      Objects.requireNonNull(delay, "delay");
      Objects.requireNonNull(payload, "payload");
    }

    /**
     * The same, with a payload for the next job.
     *
     * @param next the payload
     * @return the same with that payload
     */
    public Rerun withPayload(Payload next) {
      return new Rerun(delay, Optional.of(next));
    }
  }

  /**
   * The job is done.
   *
   * @return the outcome
   */
  static Complete complete() {
    return new Complete();
  }

  /**
   * Try again after the job's backoff.
   *
   * @param error what went wrong
   * @return the outcome
   */
  static Retry retry(String error) {
    return new Retry(Optional.empty(), error);
  }

  /**
   * Try again after a delay; {@link Retry#because(String)} says why.
   *
   * @param delay the wait before the next attempt
   * @return the outcome
   */
  static Retry retry(Duration delay) {
    return new Retry(Optional.of(delay), "");
  }

  /**
   * Make it a dead letter now: trying again would not help.
   *
   * @param reason why
   * @return the outcome
   */
  static Fail fail(String reason) {
    return new Fail(reason);
  }

  /**
   * Give the job back at once; costs no attempt.
   *
   * @return the outcome
   */
  static Release release() {
    return new Release();
  }

  /**
   * The job is done, and its key is to run again.
   *
   * @param delay the wait before it
   * @return the outcome
   */
  static Rerun rerun(Duration delay) {
    return new Rerun(delay, Optional.empty());
  }

  /**
   * The outcome as an exception, for code deep below a handler, and for a handler that returns nothing.
   *
   * @return an exception that means this outcome when a handler throws it
   */
  default OutcomeException asException() {
    return new OutcomeException(this);
  }
}
