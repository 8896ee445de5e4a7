package dev.keywork.testing;

import com.google.protobuf.Any;
import com.google.protobuf.Timestamp;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import dev.keywork.errors.FieldViolation;
import dev.keywork.errors.KeyworkException;
import dev.keywork.errors.Reasons;
import dev.keywork.internal.Ticks;
import dev.keywork.internal.Wire;
import dev.keywork.internal.v1.ItemError;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.time.Instant;

/** Times and errors as the fake server writes them. */
final class Answers {
  private static final Metadata.Key<String> SIDE_EFFECTS =
      Metadata.Key.of("side_effects", Metadata.ASCII_STRING_MARSHALLER);

  private Answers() {}

  static Timestamp wall() {
    return Wire.time(Instant.now());
  }

  static com.google.protobuf.Duration left(long deadline) {
    return Wire.duration(Duration.ofNanos(Math.max(0, deadline - Ticks.now())));
  }

  static KeyworkException refusal(Status.Code code, String reason, String text) {
    return KeyworkException.builder(code).reason(reason).description(text).noSideEffects(true).build();
  }

  static KeyworkException badField(String field, String text) {
    return refusal(Status.Code.INVALID_ARGUMENT, Reasons.INVALID_FIELD, field + ": " + text)
        .toBuilder()
        .violation(field, text)
        .build();
  }

  static KeyworkException notServed() {
    return refusal(Status.Code.UNIMPLEMENTED, Reasons.NOT_SERVED_YET, "the fake server does not serve this");
  }

  /** NATS is away. */
  static KeyworkException outage(boolean noSideEffects) {
    String reason = noSideEffects ? Reasons.NATS_UNAVAILABLE : Reasons.NATS_NO_ANSWER;
    return KeyworkException.builder(Status.Code.UNAVAILABLE)
        .reason(reason)
        .description("NATS is away")
        .noSideEffects(noSideEffects)
        .retryAfter(Duration.ofMillis(10))
        .build();
  }

  /** An error as a server sends it. */
  static StatusRuntimeException status(KeyworkException error) {
    com.google.rpc.Status.Builder status =
        com.google.rpc.Status.newBuilder().setCode(error.code().value()).setMessage(error.description());
    if (!error.reason().isEmpty()) {
      ErrorInfo info = ErrorInfo.newBuilder().setReason(error.reason()).setDomain("keywork.dev").build();
      status.addDetails(Any.pack(info));
    }
    if (!error.violations().isEmpty()) {
      status.addDetails(Any.pack(badRequest(error)));
    }
    error.retryAfter().ifPresent(wait -> status.addDetails(
        Any.pack(RetryInfo.newBuilder().setRetryDelay(Wire.duration(wait)).build())));
    Metadata trailers = new Metadata();
    if (error.code() == Status.Code.UNAVAILABLE) {
      trailers.put(SIDE_EFFECTS, error.hasNoSideEffects() ? "none" : "unknown");
    }
    return StatusProto.toStatusRuntimeException(status.build(), trailers);
  }

  private static BadRequest badRequest(KeyworkException error) {
    BadRequest.Builder bad = BadRequest.newBuilder();
    for (FieldViolation violation : error.violations()) {
      bad.addFieldViolations(BadRequest.FieldViolation.newBuilder()
          .setField(violation.field())
          .setDescription(violation.description()));
    }
    return bad.build();
  }

  /** What the status of a unary call says, for one item of a batch. */
  static ItemError item(KeyworkException error) {
    ItemError.Builder item = ItemError.newBuilder()
        .setCode(error.code().value())
        .setMessage(error.description())
        .setReason(error.reason())
        .setSideEffectsUnknown(!error.hasNoSideEffects());
    error.violations().stream().findFirst().ifPresent(violation -> item.setField(violation.field()));
    error.retryAfter().ifPresent(wait -> item.setRetryAfter(Wire.duration(wait)));
    return item.build();
  }
}
