package dev.keywork.internal;

import dev.keywork.worker.CancelReason;
import dev.keywork.worker.JobContext;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;

/** What a handler knows of its lease, and how it learns to stop. */
public final class LeaseContext implements JobContext {
  /** Not this object: a handler that locks it would hold up every lease of the worker. */
  private final Object lock = new Object();

  private final List<Runnable> actions = new ArrayList<>();
  private volatile CancelReason reason;
  private volatile long fence;
  private Thread thread;

  /**
   * The context of a lease.
   *
   * @param fence when the handler is to stop, in {@link Ticks}
   */
  public LeaseContext(long fence) {
    this.fence = fence;
  }

  @Override
  public Optional<CancelReason> reason() {
    return Optional.ofNullable(reason);
  }

  @Override
  public void onCancel(Runnable action) {
    Objects.requireNonNull(action, "action");
    synchronized (lock) {
      if (reason == null) {
        actions.add(action);
        return;
      }
    }
    Threads.callbacks().execute(action);
  }

  @Override
  public Duration timeLeft() {
    return Duration.ofNanos(Math.max(0, fence - Ticks.now()));
  }

  /**
   * The lease was extended.
   *
   * @param later the new fence
   */
  public void extendTo(long later) {
    fence = later;
  }

  /**
   * Tells the handler to stop; the first reason stays. Whatever waits in the handler's thread is interrupted.
   *
   * @param why the reason
   */
  public void cancel(CancelReason why) {
    List<Runnable> due;
    synchronized (lock) {
      if (reason != null) {
        return;
      }
      reason = why;
      due = List.copyOf(actions);
      actions.clear();
      interrupt();
    }
    due.forEach(Threads.callbacks()::execute);
  }

  /** Interrupts the handler's thread, as long as the handler runs on it. */
  public void interrupt() {
    synchronized (lock) {
      if (thread != null) {
        thread.interrupt();
      }
    }
  }

  /** The handler begins on this thread. */
  public void begin() {
    synchronized (lock) {
      thread = Thread.currentThread();
      if (reason != null) {
        interrupt();
      }
    }
  }

  /** The handler has ended: an interruption that it left behind is not for whoever comes next. */
  public void end() {
    synchronized (lock) {
      thread = null;
      Thread.interrupted();
    }
  }
}
