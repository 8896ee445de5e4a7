package dev.keywork.internal;

import java.lang.reflect.InvocationTargetException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicLong;

/** The one door to starting threads. */
public final class Threads {
  private static final ScheduledExecutorService TIMER = timer();
  private static final ExecutorService CALLBACKS = Executors.newCachedThreadPool(daemons("keywork-callback-"));

  private Threads() {}

  /**
   * Wakes up waits between tries. One thread for the process; nothing that runs on it may block.
   *
   * @return the timer
   */
  public static ScheduledExecutorService timerThread() {
    return TIMER;
  }

  /**
   * Runs callbacks of users, which may block: threads that are made as needed and end when they are idle.
   *
   * @return the executor
   */
  public static ExecutorService callbacks() {
    return CALLBACKS;
  }

  /**
   * Threads that do not keep the process alive.
   *
   * @param prefix begins their names
   * @return a factory
   */
  public static ThreadFactory daemons(String prefix) {
    AtomicLong number = new AtomicLong();
    return task -> {
      Thread thread = new Thread(task, prefix + number.incrementAndGet());
      thread.setDaemon(true);
      return thread;
    };
  }

  /**
   * Runs handlers: a virtual thread for each where the runtime has them (Java 21 and later), else a pool that grows
   * and shrinks.
   *
   * @return a new executor
   */
  public static ExecutorService forHandlers() {
    try {
      return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
    } catch (NoSuchMethodException | IllegalAccessException | InvocationTargetException | ClassCastException older) {
      // Before Java 21, or where they are a preview.
      return Executors.newCachedThreadPool(daemons("keywork-handler-"));
    }
  }

  private static ScheduledExecutorService timer() {
    ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(1, daemons("keywork-timer-"));
    timer.setRemoveOnCancelPolicy(true);
    return timer;
  }
}
