package dev.keywork.internal;

import java.lang.System.Logger;

/**
 * The program's log, under the name {@code dev.keywork}. It may block and throw: write where that costs nothing. A record's
 * source is who calls the logger, so that classes that a program knows do.
 */
public final class ProgramLog {
  private static final String NAME = "dev.keywork";

  private ProgramLog() {}

  /**
   * The log.
   *
   * @return its logger
   */
  public static Logger logger() {
    return System.getLogger(NAME);
  }

  /**
   * Says where something went wrong, once: some errors name the server themselves.
   *
   * @param endpoint the server
   * @param error what went wrong
   * @return both
   */
  public static String at(String endpoint, String error) {
    return error.contains(endpoint) ? error : endpoint + ": " + error;
  }

  /**
   * Keys and errors may hold anything: none of it begins a line of its own.
   *
   * @param text the text
   * @return the same as one line
   */
  public static String oneLine(String text) {
    StringBuilder line = new StringBuilder(text.length());
    for (char character : text.toCharArray()) {
      if (character == '\n') {
        line.append("\\n");
      } else {
        line.append(Character.isISOControl(character) ? '?' : character);
      }
    }
    return line.toString();
  }
}
