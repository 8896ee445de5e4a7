package dev.keywork.worker;

import dev.keywork.internal.Threads;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** Tells the owner what happens, from a thread of its own: an owner who is slow to listen costs no lease. */
final class Teller {
  private static final long LAST_WORDS_SECONDS = 2;

  private final Consumer<WorkerEvent> listener;
  private final ExecutorService thread;

  /** Nobody listens where the listener is null. */
  Teller(Consumer<WorkerEvent> listener) {
    this.listener = listener;
    this.thread =
        listener == null ? null : Executors.newSingleThreadExecutor(Threads.daemons("keywork-events-"));
  }

  boolean isHeard() {
    return listener != null;
  }

  void tell(WorkerEvent event) {
    if (thread != null) {
      thread.execute(() -> hand(event));
    }
  }

  private void hand(WorkerEvent event) {
    try {
      listener.accept(event);
    } catch (RuntimeException theirs) {
      Thread current = Thread.currentThread();
      current.getUncaughtExceptionHandler().uncaughtException(current, theirs);
    }
  }

  /** Nothing more is told; what was told is heard first. */
  void end() {
    if (thread == null) {
      return;
    }
    thread.shutdown();
    try {
      thread.awaitTermination(LAST_WORDS_SECONDS, TimeUnit.SECONDS);
    } catch (InterruptedException hurried) {
      Thread.currentThread().interrupt();
    }
  }
}
