package dev.keywork.client;

import com.google.protobuf.ByteString;
import dev.keywork.errors.FieldViolation;
import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.Refused;
import dev.keywork.internal.Wire;
import dev.keywork.internal.v1.Backoff;
import dev.keywork.internal.v1.SubmitRequest;
import dev.keywork.job.Payload;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;

/**
 * A job to offer.
 *
 * <pre>{@code
 * Submit submit = Submit.builder("reconcile", "cluster-eu-1").payload("v1").delay(Duration.ofSeconds(5)).build();
 * }</pre>
 */
public final class Submit {
  private static final String TWO_STARTS = "must not be set together with delay";
  private static final String NO_TEXT = "must be Unicode without lone surrogates";

  private final SubmitRequest request;

  /** What the wire could only say by meaning something else; null: there is nothing of the kind. */
  private final FieldViolation refused;

  private Submit(SubmitRequest request, FieldViolation refused) {
    this.request = request;
    this.refused = refused;
  }

  /**
   * Starts an offer with an empty payload.
   *
   * @param queue the queue's name
   * @param key what the job is about
   * @return a builder
   */
  public static Builder builder(String queue, String key) {
    SubmitRequest.Builder request = SubmitRequest.newBuilder()
        .setQueue(Objects.requireNonNull(queue, "queue"))
        .setKey(Objects.requireNonNull(key, "key"));
    return new Builder(request, null);
  }

  /**
   * An offer with an empty payload and nothing else.
   *
   * @param queue the queue's name
   * @param key what the job is about
   * @return the offer
   */
  public static Submit of(String queue, String key) {
    return builder(queue, key).build();
  }

  /**
   * An offer with a payload and nothing else.
   *
   * @param queue the queue's name
   * @param key what the job is about
   * @param payload what the handler gets, in UTF-8
   * @return the offer
   */
  public static Submit of(String queue, String key, String payload) {
    return builder(queue, key).payload(payload).build();
  }

  static Submit of(SubmitRequest request) {
    return new Submit(request, null);
  }

  /**
   * A builder that starts with this offer.
   *
   * @return a builder
   */
  public Builder toBuilder() {
    return new Builder(request.toBuilder(), refused);
  }

  /**
   * The queue's name.
   *
   * @return the name
   */
  public String queue() {
    return request.getQueue();
  }

  /**
   * What the job is about.
   *
   * @return the key
   */
  public String key() {
    return request.getKey();
  }

  /**
   * What the handler gets.
   *
   * @return the payload
   */
  public Payload payload() {
    return Wire.payload(request.getPayload());
  }

  /**
   * The attributes.
   *
   * @return the attributes
   */
  public Map<String, String> attributes() {
    return request.getAttributesMap();
  }

  SubmitRequest request() {
    return request;
  }

  /**
   * What is to be sent.
   *
   * @throws KeyworkException it is not worth sending
   */
  SubmitRequest checked() {
    if (refused != null) {
      throw Refused.field(refused.field(), refused.description());
    }
    if (!isText(queue())) {
      throw Refused.field("queue", NO_TEXT);
    }
    if (!isText(key())) {
      throw Refused.field("key", NO_TEXT);
    }
    return request;
  }

  /** Half a surrogate pair has no UTF-8: it would be sent as a question mark, and two keys would become one. */
  private static boolean isText(String text) {
    return text.codePoints().noneMatch(point -> Character.getType(point) == Character.SURROGATE);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Submit that && request.equals(that.request) && Objects.equals(refused, that.refused);
  }

  @Override
  public int hashCode() {
    return request.hashCode();
  }

  @Override
  public String toString() {
    return "Submit[" + queue() + '/' + key() + ", payload=" + request.getPayload().size() + " bytes]";
  }

  /** Makes a {@link Submit}. */
  public static final class Builder {
    private final SubmitRequest.Builder request;
    private FieldViolation refused;

    private Builder(SubmitRequest.Builder request, FieldViolation refused) {
      this.request = request;
      this.refused = refused;
    }

    /** The offer is refused when it is made, so that a bad one of many spoils no other. */
    private void refuseIf(boolean wrong, String field, String problem) {
      if (wrong && refused == null) {
        refused = new FieldViolation(field, problem);
      }
    }

    /**
     * What the handler gets, as text in UTF-8: at most the queue's limit, 512 KiB by default.
     *
     * @param text the text
     * @return this
     */
    public Builder payload(String text) {
      request.setPayload(ByteString.copyFromUtf8(Objects.requireNonNull(text, "payload")));
      return this;
    }

    /**
     * What the handler gets.
     *
     * @param bytes the bytes
     * @return this
     */
    public Builder payload(byte[] bytes) {
      request.setPayload(ByteString.copyFrom(Objects.requireNonNull(bytes, "payload")));
      return this;
    }

    /**
     * What the handler gets.
     *
     * @param payload the payload
     * @return this
     */
    public Builder payload(Payload payload) {
      request.setPayload(Wire.bytes(payload));
      return this;
    }

    /**
     * Media type of the payload. Default: none.
     *
     * @param type the media type
     * @return this
     */
    public Builder contentType(String type) {
      request.setContentType(type);
      return this;
    }

    /**
     * Adds one attribute.
     *
     * @param name its name
     * @param value its value
     * @return this
     */
    public Builder attribute(String name, String value) {
      Objects.requireNonNull(name, "name of an attribute");
      request.putAttributes(name, Objects.requireNonNull(value, () -> "value of the attribute " + name));
      return this;
    }

    /**
     * Adds attributes: at most 64, 16 KiB in all.
     *
     * @param attributes the attributes
     * @return this
     */
    public Builder attributes(Map<String, String> attributes) {
      request.putAllAttributes(attributes);
      return this;
    }

    /**
     * Names this submit; it becomes the job's id, and offering it again finds the same job. Default: the client makes
     * one, and keeps it over its own retries.
     *
     * @param id the id
     * @return this
     */
    public Builder requestId(UUID id) {
      request.setRequestId(id.toString());
      return this;
    }

    /**
     * What to do when the key is busy. Default: {@link OnConflict#REJECT}.
     *
     * @param onConflict what to do
     * @return this
     */
    public Builder onConflict(OnConflict onConflict) {
      request.setOnConflict(switch (onConflict) {
        case REJECT -> dev.keywork.internal.v1.OnConflict.ON_CONFLICT_REJECT;
        case RERUN -> dev.keywork.internal.v1.OnConflict.ON_CONFLICT_RERUN;
        case REPLACE -> dev.keywork.internal.v1.OnConflict.ON_CONFLICT_REPLACE;
        case FAIL -> dev.keywork.internal.v1.OnConflict.ON_CONFLICT_FAIL;
      });
      return this;
    }

    /**
     * Start no sooner than this long from now; the key is taken at once. Not together with {@link #startAt}.
     *
     * @param delay how long
     * @return this
     */
    public Builder delay(Duration delay) {
      refuseIf(request.hasStartAt(), "start_at", TWO_STARTS);
      request.setDelay(Wire.duration(delay));
      return this;
    }

    /**
     * Start no sooner than at this time; the key is taken at once. Not together with {@link #delay}.
     *
     * @param time when
     * @return this
     */
    public Builder startAt(Instant time) {
      refuseIf(request.hasDelay(), "start_at", TWO_STARTS);
      request.setStartAt(Wire.time(time));
      return this;
    }

    /**
     * Make it a dead letter when it has not started by then. Default: never.
     *
     * @param time when
     * @return this
     */
    public Builder expiresAt(Instant time) {
      request.setExpiresAt(Wire.time(time));
      return this;
    }

    /**
     * Attempts before it becomes a dead letter: 1 to 1,000. Default: the queue's.
     *
     * @param attempts how many
     * @return this
     */
    public Builder maxAttempts(int attempts) {
      // On the wire, 0 is the queue's.
      refuseIf(attempts < 1, "max_attempts", "must be from 1 to 1000");
      request.setMaxAttempts(attempts);
      return this;
    }

    /**
     * The waits between attempts. Default: the queue's.
     *
     * @param initial the first
     * @param max the longest
     * @return this
     */
    public Builder backoff(Duration initial, Duration max) {
      request.setBackoff(Backoff.newBuilder().setInitial(Wire.duration(initial)).setMax(Wire.duration(max)));
      return this;
    }

    /**
     * Makes the offer.
     *
     * @return the offer
     */
    public Submit build() {
      return new Submit(request.build(), refused);
    }
  }
}
