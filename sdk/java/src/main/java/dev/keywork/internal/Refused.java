package dev.keywork.internal;

import dev.keywork.errors.KeyworkException;
import dev.keywork.errors.Reasons;
import io.grpc.Status;

/** Requests that are refused here, before anything is sent: the errors look like those of a server. */
public final class Refused {
  private Refused() {}

  /**
   * A field is at fault.
   *
   * @param field the field, as the contract spells it
   * @param problem what is wrong with it, naming the limit
   * @return the error
   */
  public static KeyworkException field(String field, String problem) {
    return KeyworkException.builder(Status.Code.INVALID_ARGUMENT)
        .description(field + ": " + problem)
        .reason(Reasons.INVALID_FIELD)
        .violation(field, problem)
        .noSideEffects(true)
        .build();
  }
}
