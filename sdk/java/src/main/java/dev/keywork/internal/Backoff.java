package dev.keywork.internal;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/**
 * How long to wait before the next try: full jitter between 100 ms and a bound that doubles up to 10 s, so that many
 * clients of a server that went away do not come back at once.
 */
public final class Backoff {
  /** The shortest wait. */
  public static final Duration SHORTEST = Duration.ofMillis(100);

  /** The longest wait. */
  public static final Duration LONGEST = Duration.ofSeconds(10);

  private int tries;

  /** Starts with a short wait. */
  public Backoff() {}

  /**
   * The next wait.
   *
   * @return how long to wait
   */
  public Duration next() {
    tries = Math.min(tries + 1, 10);
    long bound = Math.min(SHORTEST.toMillis() << tries, LONGEST.toMillis());
    return Duration.ofMillis(ThreadLocalRandom.current().nextLong(SHORTEST.toMillis(), bound + 1));
  }

  /** The last try worked: the next wait is short again. */
  public void reset() {
    tries = 0;
  }

  /**
   * A wait around a middle: from half of it to half more.
   *
   * @param middle the middle
   * @return how long to wait
   */
  public static Duration around(Duration middle) {
    long nanos = Ticks.nanos(middle);
    return Duration.ofNanos((long) (nanos * ThreadLocalRandom.current().nextDouble(0.5, 1.5)));
  }
}
