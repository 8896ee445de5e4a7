package dev.keywork.internal;

import com.google.protobuf.ByteString;
import com.google.protobuf.Timestamp;
import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.v1.Complete;
import dev.keywork.internal.v1.Fail;
import dev.keywork.internal.v1.ItemError;
import dev.keywork.internal.v1.Release;
import dev.keywork.internal.v1.Rerun;
import dev.keywork.internal.v1.Retry;
import dev.keywork.internal.v1.Settlement;
import dev.keywork.job.DeadJob;
import dev.keywork.job.DeadReason;
import dev.keywork.job.Job;
import dev.keywork.job.JobState;
import dev.keywork.job.LostReason;
import dev.keywork.job.Outcome;
import dev.keywork.job.Payload;
import dev.keywork.job.SettlementOutcome;
import io.grpc.Status;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;

/** Plain data, to and from the wire. */
public final class Wire {
  /** Longest error text that is sent; servers keep no more. */
  private static final int ERROR_BYTES = 2_048;

  /** The longest duration of the wire: 10,000 years. */
  private static final Duration LONGEST = Duration.ofSeconds(315_576_000_000L);

  private Wire() {}

  /**
   * A duration of the wire; a negative one, which no server sends, counts as zero.
   *
   * @param wire the duration
   * @return the same
   */
  public static Duration duration(com.google.protobuf.Duration wire) {
    Duration duration = Duration.ofSeconds(wire.getSeconds(), wire.getNanos());
    return duration.isNegative() ? Duration.ZERO : duration;
  }

  /**
   * A duration for the wire.
   *
   * @param duration the duration
   * @return the same; one that is too long for the wire becomes the longest
   */
  public static com.google.protobuf.Duration duration(Duration duration) {
    Duration sent = duration.compareTo(LONGEST) > 0 ? LONGEST : duration;
    return com.google.protobuf.Duration.newBuilder()
        .setSeconds(sent.getSeconds() + (sent.isNegative() && sent.getNano() > 0 ? 1 : 0))
        .setNanos(sent.getNano() - (sent.isNegative() && sent.getNano() > 0 ? 1_000_000_000 : 0))
        .build();
  }

  /**
   * A time of the wire, where it is set and this platform can hold it.
   *
   * @param isSet whether the message has it
   * @param wire the time
   * @return the same
   */
  public static Instant time(boolean isSet, Timestamp wire) {
    try {
      return isSet ? Instant.ofEpochSecond(wire.getSeconds(), wire.getNanos()) : null;
    } catch (DateTimeException tooFar) {
      return null;
    }
  }

  /**
   * A time for the wire.
   *
   * @param time the time
   * @return the same
   */
  public static Timestamp time(Instant time) {
    return Timestamp.newBuilder().setSeconds(time.getEpochSecond()).setNanos(time.getNano()).build();
  }

  /**
   * A payload for the wire.
   *
   * @param payload the payload
   * @return the same
   */
  public static ByteString bytes(Payload payload) {
    return ByteString.copyFrom(payload.asBuffer());
  }

  /**
   * A payload of the wire.
   *
   * @param wire the bytes
   * @return the same
   */
  public static Payload payload(ByteString wire) {
    return Payload.of(wire.asReadOnlyByteBuffer());
  }

  /**
   * A job of the wire.
   *
   * @param wire the job
   * @return the same
   */
  public static Job job(dev.keywork.internal.v1.Job wire) {
    return jobBuilder(wire).build();
  }

  /**
   * A job of the wire that is not complete yet.
   *
   * @param wire the job
   * @return a builder
   */
  public static Job.Builder jobBuilder(dev.keywork.internal.v1.Job wire) {
    return Job.builder(wire.getQueue(), wire.getKey())
        .id(wire.getId())
        .payload(payload(wire.getPayload()))
        .contentType(wire.getContentType())
        .attributes(wire.getAttributesMap())
        .state(state(wire.getState()))
        .attempt(wire.getAttempt())
        .maxAttempts(wire.getMaxAttempts())
        .submittedAt(time(wire.hasSubmittedAt(), wire.getSubmittedAt()))
        .startAt(time(wire.hasStartAt(), wire.getStartAt()))
        .expiresAt(time(wire.hasExpiresAt(), wire.getExpiresAt()))
        .lastError(wire.getLastError())
        .holder(wire.getHolder())
        .leaseDeadline(time(wire.hasLeaseDeadline(), wire.getLeaseDeadline()))
        .fencingNumber(wire.getFencingNumber())
        .age(wire.hasAge() ? duration(wire.getAge()) : null);
  }

  private static JobState state(dev.keywork.internal.v1.JobState wire) {
    return switch (wire) {
      case JOB_STATE_SCHEDULED -> JobState.SCHEDULED;
      case JOB_STATE_QUEUED -> JobState.QUEUED;
      case JOB_STATE_LEASED -> JobState.LEASED;
      case JOB_STATE_RETRYING -> JobState.RETRYING;
      case JOB_STATE_DEAD -> JobState.DEAD;
      case JOB_STATE_ENDED -> JobState.ENDED;
      case JOB_STATE_UNSPECIFIED, UNRECOGNIZED -> JobState.UNKNOWN;
    };
  }

  /**
   * A dead letter of the wire.
   *
   * @param wire the dead letter
   * @return the same
   */
  public static DeadJob deadJob(dev.keywork.internal.v1.DeadJob wire) {
    Instant diedAt = time(wire.hasDiedAt(), wire.getDiedAt());
    return new DeadJob(wire.getDeadId(), job(wire.getJob()), reason(wire.getReason()), Optional.ofNullable(diedAt));
  }

  private static DeadReason reason(dev.keywork.internal.v1.DeadReason wire) {
    return switch (wire) {
      case DEAD_REASON_ATTEMPTS_EXHAUSTED -> DeadReason.ATTEMPTS_EXHAUSTED;
      case DEAD_REASON_LEASE_EXPIRED -> DeadReason.LEASE_EXPIRED;
      case DEAD_REASON_FAILED -> DeadReason.FAILED;
      case DEAD_REASON_EXPIRED -> DeadReason.EXPIRED;
      case DEAD_REASON_UNREADABLE -> DeadReason.UNREADABLE;
      case DEAD_REASON_UNSPECIFIED, UNRECOGNIZED -> DeadReason.UNKNOWN;
    };
  }

  /**
   * Why a lease was lost.
   *
   * @param wire the reason
   * @return the same
   */
  public static LostReason lostReason(dev.keywork.internal.v1.LostReason wire) {
    return switch (wire) {
      case LOST_REASON_EXPIRED -> LostReason.EXPIRED;
      case LOST_REASON_CANCELLED -> LostReason.CANCELLED;
      case LOST_REASON_SUPERSEDED -> LostReason.SUPERSEDED;
      case LOST_REASON_INVALID -> LostReason.INVALID;
      case LOST_REASON_UNSPECIFIED, UNRECOGNIZED -> LostReason.UNKNOWN;
    };
  }

  /**
   * What became of a settlement.
   *
   * @param wire the answer
   * @return the same
   */
  public static SettlementOutcome settlementOutcome(dev.keywork.internal.v1.SettlementOutcome wire) {
    return switch (wire) {
      case SETTLEMENT_OUTCOME_SETTLED -> SettlementOutcome.SETTLED;
      case SETTLEMENT_OUTCOME_ALREADY_SETTLED -> SettlementOutcome.ALREADY_SETTLED;
      case SETTLEMENT_OUTCOME_LEASE_LOST -> SettlementOutcome.LEASE_LOST;
      case SETTLEMENT_OUTCOME_TRY_AGAIN -> SettlementOutcome.TRY_AGAIN;
      case SETTLEMENT_OUTCOME_INVALID_LEASE -> SettlementOutcome.INVALID_LEASE;
      case SETTLEMENT_OUTCOME_REJECTED -> SettlementOutcome.REJECTED;
      case SETTLEMENT_OUTCOME_UNSPECIFIED, UNRECOGNIZED -> SettlementOutcome.UNKNOWN;
    };
  }

  /**
   * Settles a lease.
   *
   * @param token the lease
   * @param outcome how
   * @return the settlement
   */
  public static Settlement settlement(ByteString token, Outcome outcome) {
    Settlement.Builder settlement = Settlement.newBuilder().setLeaseToken(token);
    if (outcome instanceof Outcome.Complete) {
      settlement.setComplete(Complete.getDefaultInstance());
    } else if (outcome instanceof Outcome.Release) {
      settlement.setRelease(Release.getDefaultInstance());
    } else if (outcome instanceof Outcome.Fail fail) {
      settlement.setFail(Fail.newBuilder().setError(cut(fail.reason())));
    } else if (outcome instanceof Outcome.Retry retry) {
      Retry.Builder wire = Retry.newBuilder().setError(cut(retry.error()));
      retry.delay().ifPresent(delay -> wire.setDelay(duration(delay)));
      settlement.setRetry(wire);
    } else if (outcome instanceof Outcome.Rerun rerun) {
      Rerun.Builder wire = Rerun.newBuilder().setDelay(duration(rerun.delay()));
      rerun.payload().ifPresent(payload -> wire.setPayload(bytes(payload)));
      settlement.setRerun(wire);
    }
    return settlement.build();
  }

  /** As much of a text as servers keep, never half a character. */
  private static String cut(String text) {
    ByteString bytes = ByteString.copyFromUtf8(text);
    if (bytes.size() <= ERROR_BYTES) {
      return text;
    }
    int end = ERROR_BYTES;
    while ((bytes.byteAt(end) & 0xC0) == 0x80) {
      end--;
    }
    return bytes.substring(0, end).toStringUtf8();
  }

  /**
   * The error of one item of a batch.
   *
   * @param item the error
   * @return the same, as the error of a call
   */
  public static KeyworkException error(ItemError item) {
    KeyworkException.Builder error = KeyworkException.builder(Status.fromCodeValue(item.getCode()).getCode())
        .description(item.getMessage())
        .reason(item.getReason())
        .retryAfter(item.hasRetryAfter() ? duration(item.getRetryAfter()) : null)
        .noSideEffects(!item.getSideEffectsUnknown());
    if (!item.getField().isEmpty()) {
      // The message begins with the field's name, which a violation says by itself.
      String begin = item.getField() + ": ";
      String problem = item.getMessage();
      error.violation(item.getField(), problem.startsWith(begin) ? problem.substring(begin.length()) : problem);
    }
    return error.build();
  }
}
