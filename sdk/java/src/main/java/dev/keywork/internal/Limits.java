package dev.keywork.internal;

import java.time.Duration;

/** The limits of options: what breaks one is refused by {@code build()}, and never changed in silence. */
public final class Limits {
  private Limits() {}

  /**
   * Checks a number.
   *
   * @param option what the program calls it
   * @param given the number
   * @param least the least that is allowed
   * @param most the most that is allowed
   */
  public static void between(String option, int given, int least, int most) {
    if (given < least || given > most) {
      throw new IllegalArgumentException(
          String.format(java.util.Locale.ROOT, "%s must be %,d to %,d, not %,d", option, least, most, given));
    }
  }

  /**
   * Checks a time that may be zero.
   *
   * @param option what the program calls it
   * @param given the time
   */
  public static void notNegative(String option, Duration given) {
    if (given.isNegative()) {
      throw new IllegalArgumentException(option + " must not be negative, but is " + text(given));
    }
  }

  /**
   * Checks a time that must pass.
   *
   * @param option what the program calls it
   * @param given the time
   */
  public static void positive(String option, Duration given) {
    if (given.isNegative() || given.isZero()) {
      throw new IllegalArgumentException(option + " must be more than zero, but is " + text(given));
    }
  }

  /**
   * A time as people write it: {@code -1s}, and not {@code PT-1S}.
   *
   * @param given the time
   * @return the text
   */
  public static String text(Duration given) {
    return given.toString().substring(2).toLowerCase(java.util.Locale.ROOT);
  }
}
