package dev.keywork.client;

import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.Backoff;
import dev.keywork.internal.Channels;
import dev.keywork.internal.Ticks;
import io.grpc.Status;
import java.time.Duration;
import java.util.Optional;

/** How long a call that is safe to repeat is repeated, and where. */
final class Patience {
  /** What a try is given at least. The last one is made so long before the deadline. */
  private static final Duration SHORTEST_TRY = Duration.ofMillis(50);

  private final Channels channels;
  private final Backoff backoff = new Backoff();
  private long deadline;
  /** The server of this try: the one to turn away from. */
  private int place;
  /** Some try may have had an effect. */
  private boolean doubt;
  /** What failed before the last try, once that is made; else null. */
  private KeyworkException before;

  Patience(Channels channels) {
    this.channels = channels;
    renew();
  }

  /** Something was answered: count from here again. */
  void renew() {
    this.deadline = Ticks.after(Ticks.now(), channels.options().submitDeadline());
    backoff.reset();
    this.before = null;
  }

  /** Begins a try. */
  int place() {
    place = channels.place();
    return place;
  }

  /** How long a try may take. */
  Duration limit() {
    Duration left = Duration.ofNanos(Math.max(SHORTEST_TRY.toNanos(), deadline - Ticks.now()));
    Duration timeout = channels.options().callTimeout();
    return timeout.compareTo(left) < 0 ? timeout : left;
  }

  void answered() {
    channels.answered(place);
  }

  /** The wait before the next try, at the next server; none where another try is no use, or the last one was made. */
  Optional<Duration> after(KeyworkException error) {
    doubt |= !error.hasNoSideEffects();
    if (error.isOutage()) {
      channels.turnAway(place);
    }
    // What is left until the last try. A server that asks for more than that has answered already.
    long left = deadline - SHORTEST_TRY.toNanos() - Ticks.now();
    long asked = Ticks.nanos(error.retryAfter().orElse(Duration.ZERO));
    if (!error.isOutage() || left <= 0 || asked >= left) {
      return Optional.empty();
    }
    long wait = Math.max(backoff.next().toNanos(), asked);
    if (wait >= left) {
      before = error;
      wait = left;
    }
    return Optional.of(Duration.ofNanos(wait));
  }

  /** A submit is tried again after this error. */
  void warnOf(KeyworkException error) {
    channels.warnOfOutage(place, error);
  }

  /** The error as it is told, where an earlier try may have had an effect. */
  KeyworkException told(KeyworkException error) {
    return withDoubt(telling(error), doubt);
  }

  /** A last try is short, and that nobody answered it says less than what failed before. */
  KeyworkException telling(KeyworkException error) {
    boolean unanswered = error.isOutage() && error.code() == Status.Code.DEADLINE_EXCEEDED;
    return before != null && unanswered ? before : error;
  }

  static KeyworkException withDoubt(KeyworkException error, boolean doubt) {
    return doubt && error.hasNoSideEffects() ? error.toBuilder().noSideEffects(false).build() : error;
  }
}
