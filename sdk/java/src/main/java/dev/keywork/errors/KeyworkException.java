package dev.keywork.errors;

import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/**
 * A call that failed: a refusal, a server that could not, or a connection that broke.
 *
 * <p>It answers two questions: {@link #isRetryable()}, and {@link #hasNoSideEffects()}. That a key is busy is no
 * error but an outcome of a submit.
 */
public final class KeyworkException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** The gRPC code. */
  private final Status.Code code;

  /** What the server said. */
  private final String description;

  /** The stable name, or empty. */
  private final String reason;

  /** The fields at fault; null where this came out of a serialized form, which leaves them out. */
  private final transient List<FieldViolation> violations;

  /** When trying again can help, or null. */
  private final Duration retryAfter;

  /** Nothing was stored or changed. */
  private final boolean noSideEffects;

  /** The connection broke, or nobody answered. */
  private final boolean broken;

  private KeyworkException(Builder from) {
    super(text(from), from.cause);
    this.code = from.code;
    this.description = from.description;
    this.reason = from.reason;
    this.violations = List.copyOf(from.violations);
    this.retryAfter = from.retryAfter;
    this.noSideEffects = from.noSideEffects;
    this.broken = from.broken;
  }

  /**
   * Reads what a call of gRPC failed with. Useful with the generated stubs, which throw gRPC's own exceptions.
   *
   * @param error a {@code StatusRuntimeException}, a {@code StatusException}, what a future wraps around an error, or
   *     whatever else a call failed with
   * @return the same, with the answers to the two questions
   */
  public static KeyworkException from(Throwable error) {
    return from(error, "the server");
  }

  /**
   * The same for a call to a server that has a name: what is told about a connection then names it.
   *
   * @param error what the call failed with
   * @param server the server, such as {@code http://127.0.0.1:50051}
   * @return the same, with the answers to the two questions
   */
  public static KeyworkException from(Throwable error, String server) {
    boolean wrapped = error instanceof CompletionException || error instanceof ExecutionException;
    if (wrapped && error.getCause() != null) {
      return from(error.getCause(), server);
    }
    return error instanceof KeyworkException known ? known : StatusReader.read(error, server);
  }

  /**
   * Starts an error by hand: for the SDK itself, and for tests of programs that handle errors.
   *
   * @param code the gRPC code
   * @return a builder
   */
  public static Builder builder(Status.Code code) {
    return new Builder(code);
  }

  /**
   * A builder that starts with what this error says.
   *
   * @return a builder
   */
  public Builder toBuilder() {
    Builder builder = new Builder(code).description(description).reason(reason).retryAfter(retryAfter);
    builder.violations.addAll(violations());
    return builder.noSideEffects(noSideEffects).broken(broken).cause(getCause());
  }

  /**
   * The gRPC code.
   *
   * @return the code
   */
  public Status.Code code() {
    return code;
  }

  /**
   * What the server said, for people; {@link #getMessage()} adds the reason and the fields to it.
   *
   * @return the text; may be empty
   */
  public String description() {
    return description;
  }

  /**
   * The stable name of what went wrong.
   *
   * @return one of {@link Reasons}, or empty where none was given
   */
  public String reason() {
    return reason;
  }

  /**
   * The fields at fault, where the request was refused for them.
   *
   * @return the fields; may be empty
   */
  public List<FieldViolation> violations() {
    return violations == null ? List.of() : violations;
  }

  /**
   * When the server thinks that trying again can help.
   *
   * @return the wait before another try, where the server told one
   */
  public Optional<Duration> retryAfter() {
    return Optional.ofNullable(retryAfter);
  }

  /**
   * Can the same call succeed later, without a change? Repeat a submit with the same request id.
   *
   * @return true: it may
   */
  public boolean isRetryable() {
    if (isOutage() || retryAfter != null) {
      return true;
    }
    return switch (code) {
      case RESOURCE_EXHAUSTED, ABORTED, DEADLINE_EXCEEDED -> !reason.equals(Reasons.SESSION_SUPERSEDED);
      default -> false;
    };
  }

  /**
   * Is it sure that the call has changed nothing?
   *
   * @return true: nothing was stored or changed; false: something may have been
   */
  public boolean hasNoSideEffects() {
    return noSideEffects;
  }

  /**
   * Is the server, or the way to it, away? A submit is repeated by the client itself after such an error.
   *
   * @return true: it is away
   */
  public boolean isOutage() {
    return broken || code == Status.Code.UNAVAILABLE;
  }

  private static String text(Builder from) {
    StringBuilder text = new StringBuilder(from.description.isEmpty() ? from.code.name() : from.description);
    if (!from.reason.isEmpty()) {
      text.append(" [").append(from.reason).append(']');
    }
    for (FieldViolation violation : from.violations) {
      if (!from.description.contains(violation.description())) {
        text.append("; ").append(violation.field()).append(": ").append(violation.description());
      }
    }
    return text.toString();
  }

  /** Makes a {@link KeyworkException}. */
  public static final class Builder {
    private final Status.Code code;
    private final List<FieldViolation> violations = new ArrayList<>();
    private String description = "";
    private String reason = "";
    private Duration retryAfter;
    private boolean noSideEffects;
    private boolean broken;
    private Throwable cause;

    private Builder(Status.Code code) {
      this.code = code;
    }

    /**
     * What went wrong, for people.
     *
     * @param text the text; null counts as empty
     * @return this
     */
    public Builder description(String text) {
      this.description = text == null ? "" : text;
      return this;
    }

    /**
     * The stable name of what went wrong.
     *
     * @param name one of {@link Reasons}
     * @return this
     */
    public Builder reason(String name) {
      this.reason = name == null ? "" : name;
      return this;
    }

    /**
     * Adds a field at fault.
     *
     * @param field the field's path
     * @param text what is wrong with it
     * @return this
     */
    public Builder violation(String field, String text) {
      violations.add(new FieldViolation(field, text));
      return this;
    }

    /**
     * When trying again can help.
     *
     * @param wait the wait before another try; null: not told
     * @return this
     */
    public Builder retryAfter(Duration wait) {
      this.retryAfter = wait;
      return this;
    }

    /**
     * Whether it is sure that nothing was changed. Default: false.
     *
     * @param sure true: it is
     * @return this
     */
    public Builder noSideEffects(boolean sure) {
      this.noSideEffects = sure;
      return this;
    }

    /**
     * Whether the connection broke or nobody answered, whatever the code is. Default: false.
     *
     * @param isBroken true: so it is
     * @return this
     */
    public Builder broken(boolean isBroken) {
      this.broken = isBroken;
      return this;
    }

    /**
     * What caused it.
     *
     * @param error the cause; may be null
     * @return this
     */
    public Builder cause(Throwable error) {
      this.cause = error;
      return this;
    }

    /**
     * Makes the exception.
     *
     * @return the exception
     */
    public KeyworkException build() {
      return new KeyworkException(this);
    }
  }
}
