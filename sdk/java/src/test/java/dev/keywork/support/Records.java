package dev.keywork.support;

import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.stream.Collectors;

/** What the workers of one queue write into the log. */
public final class Records extends Handler implements AutoCloseable {
  /** Held, since loggers are garbage where nobody holds them. */
  private static final Logger LOGGER = Logger.getLogger("dev.keywork");

  public final Log<LogRecord> all = new Log<>();
  private final String begin;

  public Records(String queue) {
    this.begin = "worker of " + queue + ": ";
    LOGGER.addHandler(this);
  }

  @Override
  public void publish(LogRecord entry) {
    if (entry.getMessage().startsWith(begin)) {
      all.add(entry);
    }
  }

  /** Waits for a line of that level that holds the text. */
  public LogRecord until(Level level, String text) {
    return all.untilAny(level + " " + text, entry -> entry.getLevel() == level && entry.getMessage().contains(text))
        .stream()
        .filter(entry -> entry.getLevel() == level && entry.getMessage().contains(text))
        .findFirst()
        .orElseThrow();
  }

  /** Every line of that level, one under the other. */
  public String lines(Level level) {
    return all.all().stream()
        .filter(entry -> entry.getLevel() == level)
        .map(LogRecord::getMessage)
        .collect(Collectors.joining("\n"));
  }

  @Override
  public void flush() {
    // Nothing is held back.
  }

  @Override
  public void close() {
    LOGGER.removeHandler(this);
  }
}
