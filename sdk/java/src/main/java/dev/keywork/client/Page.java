package dev.keywork.client;

import java.util.List;
import java.util.Optional;
import java.util.function.Function;

/**
 * A part of a list.
 *
 * @param <T> what is listed
 * @param items what is in this part
 * @param next asks for the part after it, where there is one
 */
public record Page<T>(List<T> items, Optional<PageRequest> next) {
  static <W, T> Page<T> of(List<W> wire, Function<W, T> read, PageRequest asked, String token) {
    Optional<PageRequest> next = token.isEmpty() ? Optional.empty() : Optional.of(new PageRequest(asked.size(), token));
    return new Page<>(wire.stream().map(read).toList(), next);
  }
}
