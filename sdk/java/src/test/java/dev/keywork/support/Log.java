package dev.keywork.support;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Predicate;

/** Something that grows, and can be waited for. */
public final class Log<T> {
  private static final long PATIENCE_SECONDS = 20;

  private final ReentrantLock lock = new ReentrantLock();
  private final Condition grown = lock.newCondition();
  private final List<T> entries = new ArrayList<>();

  public void add(T entry) {
    lock.lock();
    try {
      entries.add(entry);
      grown.signalAll();
    } finally {
      lock.unlock();
    }
  }

  public List<T> all() {
    lock.lock();
    try {
      return List.copyOf(entries);
    } finally {
      lock.unlock();
    }
  }

  public List<T> until(String what, Predicate<List<T>> isSo) {
    long left = TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
    lock.lock();
    try {
      while (!isSo.test(entries)) {
        if (left <= 0) {
          throw new AssertionError("waited in vain: " + what + "; log: " + entries);
        }
        left = grown.awaitNanos(left);
      }
      return List.copyOf(entries);
    } catch (InterruptedException interrupted) {
      throw new AssertionError("interrupted while waiting: " + what, interrupted);
    } finally {
      lock.unlock();
    }
  }

  public List<T> untilAny(String what, Predicate<T> isIt) {
    return until(what, all -> all.stream().anyMatch(isIt));
  }
}
