package dev.keywork.internal;

import java.time.Duration;

/** The monotonic clock: nanoseconds since some moment before this class was loaded, never negative, never back. */
public final class Ticks {
  /** A time that never comes. */
  public static final long NEVER = Long.MAX_VALUE / 2;

  private static final long START = System.nanoTime() - 1;

  private Ticks() {}

  /**
   * Now.
   *
   * @return the nanoseconds
   */
  public static long now() {
    return System.nanoTime() - START;
  }

  /**
   * A duration in nanoseconds, at most {@link #NEVER}.
   *
   * @param duration the duration
   * @return the nanoseconds
   */
  public static long nanos(Duration duration) {
    return duration.compareTo(Duration.ofNanos(NEVER)) >= 0 ? NEVER : duration.toNanos();
  }

  /**
   * The time that comes after another by a duration.
   *
   * @param time the time
   * @param duration the duration
   * @return the later time, at most {@link #NEVER}
   */
  public static long after(long time, Duration duration) {
    return Math.min(NEVER, time + nanos(duration));
  }
}
