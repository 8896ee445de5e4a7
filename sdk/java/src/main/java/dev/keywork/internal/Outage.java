package dev.keywork.internal;

import java.time.Duration;

/** An outage, which is warned of at once and then seldom. Time is an argument. */
public final class Outage {
  /** The least time between two warnings. */
  private static final Duration PAUSE = Duration.ofSeconds(30);

  /** When the next warning may come. */
  private long next;

  /** None. */
  public Outage() {}

  /**
   * Is it time for a warning?
   *
   * @param now the time
   * @return true: it is
   */
  public boolean isDue(long now) {
    return next <= now;
  }

  /**
   * The same, for who warns then.
   *
   * @param now the time
   * @return true: warn
   */
  public boolean isToBeWarnedOf(long now) {
    boolean due = isDue(now);
    if (due) {
      next = Ticks.after(now, PAUSE);
    }
    return due;
  }

  /** The next one is warned of at once. */
  public void isOver() {
    next = 0;
  }
}
