package dev.keywork.internal;

import java.lang.System.Logger.Level;

/** The program's log, under the name {@code dev.keywork}. It may block and throw: call it where that costs nothing. */
public final class ProgramLog {
  private static final String NAME = "dev.keywork";

  private ProgramLog() {}

  /**
   * Writes a line.
   *
   * @param level how bad it is
   * @param text what is said, as one line
   * @param thrown whose stack is shown; null: none
   */
  public static void write(Level level, String text, Throwable thrown) {
    System.getLogger(NAME).log(level, oneLine(text), thrown);
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

  /** Keys and errors may hold anything: none of it begins a line of its own. */
  private static String oneLine(String text) {
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
