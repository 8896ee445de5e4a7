package dev.keywork.client;

import com.google.protobuf.FieldMask;
import dev.keywork.internal.Wire;
import dev.keywork.internal.v1.Backoff;
import java.time.Duration;
import java.util.Optional;

/**
 * The configuration of a queue. What is not set takes the server's default, and an update leaves it as it is.
 *
 * @param leaseDuration how long a lease lasts from its last extension: 2 s to 12 h; default: 15 s
 * @param maxRunTime the longest that one attempt may run, heartbeats or not; zero: no limit; default: 1 h
 * @param maxAttempts attempts before a job becomes a dead letter: 1 to 1,000; default: 10
 * @param backoff the waits between attempts; default: 1 s doubling to 10 min
 * @param maxDepth the most outstanding jobs; default: 10,000,000
 * @param maxPayloadBytes the largest payload in bytes; default: 524,288
 * @param disconnectGrace after a worker's stream broke, its leases go to others after this long; default: at their
 *     deadline
 * @param deadLetterRetention how long dead letters are kept; default: 14 days
 * @param dedupeWindow how long a request id is remembered; default: 2 min
 */
public record QueueConfig(
    Optional<Duration> leaseDuration,
    Optional<Duration> maxRunTime,
    Optional<Integer> maxAttempts,
    Optional<BackoffRange> backoff,
    Optional<Long> maxDepth,
    Optional<Integer> maxPayloadBytes,
    Optional<Duration> disconnectGrace,
    Optional<Duration> deadLetterRetention,
    Optional<Duration> dedupeWindow) {
  /**
   * The waits between attempts.
   *
   * @param initial the first
   * @param max the longest
   */
  public record BackoffRange(Duration initial, Duration max) {}

  /**
   * A configuration in which nothing is set.
   *
   * @return a builder
   */
  public static Builder builder() {
    return new Builder();
  }

  static QueueConfig read(dev.keywork.internal.v1.QueueConfig wire) {
    Builder builder = builder();
    if (wire.hasLeaseDuration()) {
      builder.leaseDuration(Wire.duration(wire.getLeaseDuration()));
    }
    if (wire.hasMaxRunTime()) {
      builder.maxRunTime(Wire.duration(wire.getMaxRunTime()));
    }
    if (wire.hasMaxAttempts()) {
      builder.maxAttempts(wire.getMaxAttempts());
    }
    if (wire.hasBackoff()) {
      Duration initial = Wire.duration(wire.getBackoff().getInitial());
      builder.backoff(initial, wire.getBackoff().hasMax() ? Wire.duration(wire.getBackoff().getMax()) : initial);
    }
    if (wire.hasMaxDepth()) {
      builder.maxDepth(wire.getMaxDepth());
    }
    if (wire.hasMaxPayloadBytes()) {
      builder.maxPayloadBytes(wire.getMaxPayloadBytes());
    }
    if (wire.hasDisconnectGrace()) {
      builder.disconnectGrace(Wire.duration(wire.getDisconnectGrace()));
    }
    if (wire.hasDeadLetterRetention()) {
      builder.deadLetterRetention(Wire.duration(wire.getDeadLetterRetention()));
    }
    if (wire.hasDedupeWindow()) {
      builder.dedupeWindow(Wire.duration(wire.getDedupeWindow()));
    }
    return builder.build();
  }

  dev.keywork.internal.v1.QueueConfig wire() {
    dev.keywork.internal.v1.QueueConfig.Builder wire = dev.keywork.internal.v1.QueueConfig.newBuilder();
    leaseDuration.ifPresent(value -> wire.setLeaseDuration(Wire.duration(value)));
    maxRunTime.ifPresent(value -> wire.setMaxRunTime(Wire.duration(value)));
    maxAttempts.ifPresent(wire::setMaxAttempts);
    backoff.ifPresent(range -> wire.setBackoff(Backoff.newBuilder()
        .setInitial(Wire.duration(range.initial()))
        .setMax(Wire.duration(range.max()))));
    maxDepth.ifPresent(wire::setMaxDepth);
    maxPayloadBytes.ifPresent(wire::setMaxPayloadBytes);
    disconnectGrace.ifPresent(value -> wire.setDisconnectGrace(Wire.duration(value)));
    deadLetterRetention.ifPresent(value -> wire.setDeadLetterRetention(Wire.duration(value)));
    dedupeWindow.ifPresent(value -> wire.setDedupeWindow(Wire.duration(value)));
    return wire.build();
  }

  /** The names of the fields that are set, as an update's mask has them. */
  FieldMask mask() {
    FieldMask.Builder mask = FieldMask.newBuilder();
    leaseDuration.ifPresent(set -> mask.addPaths("lease_duration"));
    maxRunTime.ifPresent(set -> mask.addPaths("max_run_time"));
    maxAttempts.ifPresent(set -> mask.addPaths("max_attempts"));
    backoff.ifPresent(set -> mask.addPaths("backoff"));
    maxDepth.ifPresent(set -> mask.addPaths("max_depth"));
    maxPayloadBytes.ifPresent(set -> mask.addPaths("max_payload_bytes"));
    disconnectGrace.ifPresent(set -> mask.addPaths("disconnect_grace"));
    deadLetterRetention.ifPresent(set -> mask.addPaths("dead_letter_retention"));
    dedupeWindow.ifPresent(set -> mask.addPaths("dedupe_window"));
    return mask.build();
  }

  /** Makes a {@link QueueConfig}. */
  public static final class Builder {
    private Duration leaseDuration;
    private Duration maxRunTime;
    private Integer maxAttempts;
    private BackoffRange backoff;
    private Long maxDepth;
    private Integer maxPayloadBytes;
    private Duration disconnectGrace;
    private Duration deadLetterRetention;
    private Duration dedupeWindow;

    private Builder() {}

    /**
     * How long a lease lasts from its last extension: 2 s to 12 h. Default: 15 s.
     *
     * @param leaseDuration as said
     * @return this
     */
    public Builder leaseDuration(Duration leaseDuration) {
      this.leaseDuration = leaseDuration;
      return this;
    }

    /**
     * The longest that one attempt may run, heartbeats or not; zero: no limit. Default: 1 h.
     *
     * @param maxRunTime as said
     * @return this
     */
    public Builder maxRunTime(Duration maxRunTime) {
      this.maxRunTime = maxRunTime;
      return this;
    }

    /**
     * Attempts before a job becomes a dead letter: 1 to 1,000. Default: 10.
     *
     * @param maxAttempts as said
     * @return this
     */
    public Builder maxAttempts(int maxAttempts) {
      this.maxAttempts = maxAttempts;
      return this;
    }

    /**
     * The waits between attempts. Default: 1 s doubling to 10 min.
     *
     * @param initial the first
     * @param max the longest
     * @return this
     */
    public Builder backoff(Duration initial, Duration max) {
      this.backoff = new BackoffRange(initial, max);
      return this;
    }

    /**
     * The most outstanding jobs. Default: 10,000,000.
     *
     * @param maxDepth as said
     * @return this
     */
    public Builder maxDepth(long maxDepth) {
      this.maxDepth = maxDepth;
      return this;
    }

    /**
     * The largest payload in bytes. Default: 524,288.
     *
     * @param maxPayloadBytes as said
     * @return this
     */
    public Builder maxPayloadBytes(int maxPayloadBytes) {
      this.maxPayloadBytes = maxPayloadBytes;
      return this;
    }

    /**
     * After a worker's stream broke, its leases go to others after this long. Default: at their deadline.
     *
     * @param disconnectGrace as said
     * @return this
     */
    public Builder disconnectGrace(Duration disconnectGrace) {
      this.disconnectGrace = disconnectGrace;
      return this;
    }

    /**
     * How long dead letters are kept. Default: 14 days.
     *
     * @param deadLetterRetention as said
     * @return this
     */
    public Builder deadLetterRetention(Duration deadLetterRetention) {
      this.deadLetterRetention = deadLetterRetention;
      return this;
    }

    /**
     * How long a request id is remembered. Default: 2 min.
     *
     * @param dedupeWindow as said
     * @return this
     */
    public Builder dedupeWindow(Duration dedupeWindow) {
      this.dedupeWindow = dedupeWindow;
      return this;
    }

    /**
     * Makes the configuration.
     *
     * @return the configuration
     */
    public QueueConfig build() {
      return new QueueConfig(
          Optional.ofNullable(leaseDuration),
          Optional.ofNullable(maxRunTime),
          Optional.ofNullable(maxAttempts),
          Optional.ofNullable(backoff),
          Optional.ofNullable(maxDepth),
          Optional.ofNullable(maxPayloadBytes),
          Optional.ofNullable(disconnectGrace),
          Optional.ofNullable(deadLetterRetention),
          Optional.ofNullable(dedupeWindow));
    }
  }
}
