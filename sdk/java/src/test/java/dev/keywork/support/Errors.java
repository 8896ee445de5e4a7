package dev.keywork.support;

import dev.keywork.errors.KeyworkException;
import io.grpc.Status;

/** Errors for scripts. */
public final class Errors {
  private Errors() {}

  public static KeyworkException of(Status.Code code) {
    return KeyworkException.builder(code).description("scripted").build();
  }

  public static KeyworkException of(Status.Code code, String reason) {
    return of(code).toBuilder().reason(reason).build();
  }
}
