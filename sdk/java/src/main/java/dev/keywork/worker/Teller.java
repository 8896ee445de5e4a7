package dev.keywork.worker;

import dev.keywork.internal.Threads;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** Tells the owner what happens, from a thread of its own: an owner who is slow to listen costs no lease. */
final class Teller {
  private static final long LAST_WORDS_SECONDS = 2;

  /** So many events may wait for an owner who is slow to listen; of what happens with every job no more is told. */
  private static final int BACKLOG = 100_000;

  private final Consumer<WorkerEvent> listener;
  private final ThreadPoolExecutor thread;

  /** Nobody listens where the listener is null. */
  Teller(Consumer<WorkerEvent> listener) {
    this.listener = listener;
    this.thread = listener == null ? null : new ThreadPoolExecutor(
        1, 1, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), Threads.daemons("keywork-events-"));
  }

  /** For what happens with every job: nothing is made where nobody listens. */
  void tellOften(Supplier<WorkerEvent> event) {
    if (thread != null && thread.getQueue().size() < BACKLOG) {
      tell(event.get());
    }
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
