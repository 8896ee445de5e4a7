package dev.keywork.client;

import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.Backoff;
import dev.keywork.internal.Channels;
import dev.keywork.internal.Ticks;
import java.time.Duration;
import java.util.Optional;

/** How long a call that is safe to repeat is repeated, and where. */
final class Patience {
  /** What a try is given at least: one that ends sooner would tell nothing, and hide what the one before told. */
  private static final Duration SHORTEST_TRY = Duration.ofMillis(50);

  private final Channels channels;
  private final Backoff backoff = new Backoff();
  private long deadline;
  /** The server of this try: the one to turn away from. */
  private int place;
  /** Some try may have had an effect. */
  private boolean doubt;

  Patience(Channels channels) {
    this.channels = channels;
    renew();
  }

  /** Something was answered: count from here again. */
  void renew() {
    this.deadline = Ticks.after(Ticks.now(), channels.options().submitDeadline());
    backoff.reset();
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

  /** The wait before the next try, at the next server; none where another try is no use or comes too late. */
  Optional<Duration> after(KeyworkException error) {
    doubt |= !error.hasNoSideEffects();
    if (error.isOutage()) {
      channels.turnAway(place);
    }
    Duration pause = backoff.next();
    Duration asked = error.retryAfter().orElse(Duration.ZERO);
    Duration wait = pause.compareTo(asked) < 0 ? asked : pause;
    boolean again = error.isOutage() && Ticks.after(Ticks.now(), wait.plus(SHORTEST_TRY)) < deadline;
    return again ? Optional.of(wait) : Optional.empty();
  }

  /** A submit is tried again after this error. */
  void warnOf(KeyworkException error) {
    channels.warnOfOutage(place, error);
  }

  /** The error as it is told, where an earlier try may have had an effect. */
  KeyworkException told(KeyworkException error) {
    return withDoubt(error, doubt);
  }

  static KeyworkException withDoubt(KeyworkException error, boolean doubt) {
    return doubt && error.hasNoSideEffects() ? error.toBuilder().noSideEffects(false).build() : error;
  }
}
