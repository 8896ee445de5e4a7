package dev.keywork.support;

import java.util.function.Predicate;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.stream.Collectors;

/** What the workers of one queue, or the clients of one server, write into the log. */
public final class Records extends Handler implements AutoCloseable {
  /** Held, since loggers are garbage where nobody holds them. */
  private static final Logger LOGGER = Logger.getLogger("dev.keywork");

  public final Log<LogRecord> all = new Log<>();
  private final Predicate<String> isMeant;

  public Records(String queue) {
    this(text -> text.startsWith("worker of " + queue + ": "));
  }

  private Records(Predicate<String> isMeant) {
    this.isMeant = isMeant;
    LOGGER.addHandler(this);
  }

  public static Records ofClients(String endpoint) {
    return new Records(text -> text.startsWith("client: ") && text.contains(endpoint));
  }

  @Override
  public void publish(LogRecord entry) {
    if (isMeant.test(entry.getMessage())) {
      // It is found from the stack, as a formatter does, and only here.
      entry.getSourceClassName();
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
