package dev.keywork.client;

import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * A part of a list.
 *
 * @param <T> what is listed
 * @param items what is in this part
 * @param next asks for the part after it, where there is one
 */
public record Page<T>(List<T> items, Optional<PageRequest> next) {
  /**
   * Goes through all pages of a list; each is asked for when the one before it is used up.
   *
   * <pre>{@code
   * Page.all(page -> client.deadLetters().list("mail", page)).forEach(System.out::println);
   * }</pre>
   *
   * @param <T> what is listed
   * @param list answers one page
   * @return everything that is listed
   */
  public static <T> Stream<T> all(Function<PageRequest, Page<T>> list) {
    Stream<Page<T>> pages = Stream.iterate(
        Optional.of(PageRequest.first()).map(list),
        Optional::isPresent,
        page -> page.orElseThrow().next().map(list)).map(Optional::orElseThrow);
    return pages.flatMap(page -> page.items().stream());
  }

  static <W, T> Page<T> of(List<W> wire, Function<W, T> read, PageRequest asked, String token) {
    Optional<PageRequest> next = token.isEmpty() ? Optional.empty() : Optional.of(new PageRequest(asked.size(), token));
    return new Page<>(wire.stream().map(read).toList(), next);
  }
}
