package dev.keywork.conformance;

import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;

/** Where handlers wait for what the runner says of them. */
final class Desk {
  private final Map<String, Queue<CompletableFuture<Args>>> waiting = new HashMap<>();

  synchronized CompletableFuture<Args> queueUp(String key) {
    CompletableFuture<Args> turn = new CompletableFuture<>();
    waiting.computeIfAbsent(key, made -> new ArrayDeque<>()).add(turn);
    return turn;
  }

  /** Nobody waits here any more. */
  synchronized void leave(String key, CompletableFuture<Args> turn) {
    Queue<CompletableFuture<Args>> queue = waiting.get(key);
    if (queue != null) {
      queue.remove(turn);
    }
  }

  /** Ends the oldest waiting handler of a key; false: there is none. */
  synchronized boolean finish(String key, Args how) {
    Queue<CompletableFuture<Args>> queue = waiting.get(key);
    CompletableFuture<Args> turn = queue == null ? null : queue.poll();
    return turn != null && turn.complete(how);
  }
}
