package dev.keywork.client;

/**
 * Which part of a list.
 *
 * @param size at most this many: 1 to 1,000; 0: the server's default, 100
 * @param token from the page before; empty: from the start
 */
public record PageRequest(int size, String token) {
  /**
   * The first page, of the usual size.
   *
   * @return the request
   */
  public static PageRequest first() {
    return new PageRequest(0, "");
  }

  /**
   * The first page, of at most this many.
   *
   * @param size 1 to 1,000
   * @return the request
   */
  public static PageRequest first(int size) {
    return new PageRequest(size, "");
  }
}
