package dev.keywork.worker;

import dev.keywork.internal.Threads;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Runs the code of others, one task after the other, on a thread of its own: however slow it is, it costs no lease. */
final class Aside {
  private final int room;
  private final ThreadPoolExecutor thread;

  /**
   * Starts the thread.
   *
   * @param name begins the thread's name
   * @param room so many tasks may wait
   */
  Aside(String name, int room) {
    this.room = room;
    this.thread =
        new ThreadPoolExecutor(1, 1, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), Threads.daemons(name));
    // Now, and not later on the thread that keeps the leases alive.
    thread.prestartCoreThread();
  }

  boolean isHalfFull() {
    return thread.getQueue().size() >= room / 2;
  }

  /** Runs it when its turn comes. False: there is no room, and it is left out. */
  boolean run(Runnable task) {
    if (thread.getQueue().size() >= room) {
      return false;
    }
    thread.execute(() -> guarded(task));
    return true;
  }

  private static void guarded(Runnable task) {
    try {
      task.run();
    } catch (RuntimeException | Error theirs) {
      Thread current = Thread.currentThread();
      current.getUncaughtExceptionHandler().uncaughtException(current, theirs);
    }
  }

  /** Takes nothing more. What it has taken is run before {@link #awaitEnd} returns. */
  void end() {
    thread.shutdown();
  }

  /** Waits for the last task, if it does not take too long. */
  void awaitEnd(long nanos) {
    try {
      thread.awaitTermination(nanos, TimeUnit.NANOSECONDS);
    } catch (InterruptedException hurried) {
      Thread.currentThread().interrupt();
    }
  }
}
