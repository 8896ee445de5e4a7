package dev.keywork.errors;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.netty.handler.ssl.NotSslRecordException;
import io.grpc.protobuf.StatusProto;
import java.net.ConnectException;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.regex.Pattern;

/** Reads statuses of the wire; never decides what to do about them. */
final class StatusReader {
  private static final Metadata.Key<String> SIDE_EFFECTS =
      Metadata.Key.of("side_effects", Metadata.ASCII_STRING_MARSHALLER);

  /** How netty begins what the system says: {@code finishConnect(..) failed with error(-111): Connection refused}. */
  private static final Pattern SYSTEM_CALL = Pattern.compile("^\\w+\\(\\.\\.\\) failed with error\\(-?\\d+\\): ");

  private StatusReader() {}

  static KeyworkException read(Throwable error, String server) {
    Status status = Status.fromThrowable(error);
    Metadata found = Status.trailersFromThrowable(error);
    Metadata trailers = found == null ? new Metadata() : found;
    KeyworkException.Builder builder = KeyworkException.builder(status.getCode());
    if (!isOfCall(error)) {
      // Something on this side: what an interceptor threw, say. It tells nothing of the server.
      return builder.description(error.toString()).cause(error).build();
    }
    boolean told = readDetails(status, trailers, builder);
    boolean broken = !told && isBroken(status);
    builder.description(broken ? broke(status, server) : status.getDescription());
    builder.noSideEffects(nothingHappened(status, trailers));
    return builder.broken(broken).cause(error).build();
  }

  /** True: gRPC made it, so a call has failed. */
  private static boolean isOfCall(Throwable error) {
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (cause instanceof StatusRuntimeException || cause instanceof StatusException) {
        return true;
      }
    }
    return false;
  }

  /** What gRPC says of a broken connection is "io exception": the cause says more. */
  private static String broke(Status status, String server) {
    if (status.getCode() == Status.Code.DEADLINE_EXCEEDED) {
      return server + " did not answer in time";
    }
    Throwable cause = status.getCause();
    if (cause == null) {
      String text = String.valueOf(status.getDescription());
      boolean silent = text.contains("Network closed for unknown reason");
      return server + (silent ? " closed the connection without a word" : " broke the connection: " + text);
    }
    while (cause.getCause() != null) {
      cause = cause.getCause();
    }
    return server + (neverConnected(status) ? " cannot be reached: " : " broke the connection: ") + why(cause);
  }

  /** What netty and the JDK leave to be guessed, in words. */
  private static String why(Throwable cause) {
    if (cause instanceof UnknownHostException) {
      return "there is no such host";
    }
    if (cause instanceof NotSslRecordException) {
      return "it does not speak TLS, so it is for an http:// endpoint";
    }
    String text = cause.getMessage() == null ? cause.toString() : cause.getMessage();
    return SYSTEM_CALL.matcher(text).replaceFirst("");
  }

  /** True: it carries Keywork's own details, so a server made it. */
  private static boolean readDetails(Status status, Metadata trailers, KeyworkException.Builder builder) {
    boolean told = false;
    try {
      for (Any detail : StatusProto.fromStatusAndTrailers(status, trailers).getDetailsList()) {
        told |= readDetail(detail, builder);
      }
    } catch (InvalidProtocolBufferException | IllegalArgumentException unreadable) {
      // What a proxy put there is not ours: the code says enough.
      return told;
    }
    return told;
  }

  private static boolean readDetail(Any detail, KeyworkException.Builder builder)
      throws InvalidProtocolBufferException {
    if (detail.is(ErrorInfo.class)) {
      builder.reason(detail.unpack(ErrorInfo.class).getReason());
      return true;
    }
    if (detail.is(BadRequest.class)) {
      BadRequest bad = detail.unpack(BadRequest.class);
      bad.getFieldViolationsList().forEach(field -> builder.violation(field.getField(), field.getDescription()));
    }
    if (detail.is(RetryInfo.class)) {
      var delay = detail.unpack(RetryInfo.class).getRetryDelay();
      builder.retryAfter(Duration.ofSeconds(delay.getSeconds(), delay.getNanos()));
    }
    return false;
  }

  /** The server's word where it gave one; otherwise what the code implies. */
  private static boolean nothingHappened(Status status, Metadata trailers) {
    String said = trailers.get(SIDE_EFFECTS);
    if (said != null) {
      return said.equals("none");
    }
    return neverConnected(status) || isRefusal(status.getCode());
  }

  /** Codes with which a server turns a request away before it acts on it. */
  private static boolean isRefusal(Status.Code code) {
    return switch (code) {
      case INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, UNAUTHENTICATED, RESOURCE_EXHAUSTED,
          FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED -> true;
      default -> false;
    };
  }

  private static boolean neverConnected(Status status) {
    for (Throwable cause = status.getCause(); cause != null; cause = cause.getCause()) {
      if (cause instanceof ConnectException || cause instanceof UnknownHostException) {
        return true;
      }
    }
    return false;
  }

  /** The connection broke under the call, or nobody answered in time: this side, or a proxy, made the status. */
  private static boolean isBroken(Status status) {
    return switch (status.getCode()) {
      case UNAVAILABLE, UNKNOWN, CANCELLED, DEADLINE_EXCEEDED -> true;
      // What a stream's reset by HTTP/2 becomes.
      case INTERNAL -> status.getCause() != null || String.valueOf(status.getDescription()).contains("HTTP/2");
      default -> false;
    };
  }
}
