package dev.keywork.testing;

import dev.keywork.errors.KeyworkException;

/** What goes wrong with one submit at a {@link FakeServer}. */
public sealed interface SubmitFault {
  /** Nothing is stored, and it says so. */
  record Unavailable() implements SubmitFault {}

  /** The job is stored, and the answer says that it may not be. */
  record AnswerLost() implements SubmitFault {}

  /** The job is stored and the stream, or the call, breaks. */
  record Broken() implements SubmitFault {}

  /**
   * It is refused.
   *
   * @param error with this
   */
  record Refused(KeyworkException error) implements SubmitFault {}
}
