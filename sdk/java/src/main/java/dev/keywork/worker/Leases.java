package dev.keywork.worker;

import com.google.protobuf.ByteString;
import dev.keywork.internal.Ticks;
import dev.keywork.job.Outcome;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The leases that a worker holds, and until when it may act on each.
 *
 * <p>Pure: time is an argument, nothing here waits or sends.
 */
final class Leases {
  /** Every lease that is not lost. */
  private final Map<ByteString, Held> byToken = new HashMap<>();

  /** Leases that are lost, whose handlers still run. */
  private final Set<Held> lost = new LinkedHashSet<>();

  private int running;

  void add(Held held) {
    byToken.put(held.token, held);
  }

  /** The lease of a token, as long as it is not lost; or null. */
  Held find(ByteString token) {
    return byToken.get(token);
  }

  /** Every lease that is not lost. */
  Collection<Held> held() {
    return byToken.values();
  }

  /** How many handler slots are occupied. */
  int occupied() {
    return running + lost.size();
  }

  /** How many of them by handlers that have lost their lease. */
  int occupiedByLost() {
    return lost.size();
  }

  boolean isEmpty() {
    return byToken.isEmpty() && lost.isEmpty();
  }

  /** Results of handlers that wait for a server's answer. A release is none: the job is to run again. */
  int unconfirmed() {
    int count = 0;
    for (Held held : byToken.values()) {
      if (held.phase == Held.Phase.SETTLING && !(held.outcome instanceof Outcome.Release)) {
        count++;
      }
    }
    return count;
  }

  /** Waiting to running. */
  void start(Held held) {
    held.phase = Held.Phase.RUNNING;
    running++;
  }

  /** The handler has ended. True: its outcome is to be sent. False: it is dropped. */
  boolean finish(Held held, Outcome outcome) {
    if (held.phase == Held.Phase.RUNNING) {
      held.phase = Held.Phase.SETTLING;
      held.outcome = outcome;
      running--;
      return true;
    }
    if (held.phase == Held.Phase.LOST) {
      held.phase = Held.Phase.GONE;
      lost.remove(held);
    }
    return false;
  }

  /** Waiting to settling: the job goes back without having been started. */
  boolean giveBack(Held held) {
    if (held.phase != Held.Phase.WAITING) {
      return false;
    }
    held.phase = Held.Phase.SETTLING;
    held.outcome = Outcome.release();
    return true;
  }

  /** The server has confirmed a settlement, or has said that there is nothing to settle. False: there was none. */
  boolean settled(Held held) {
    if (held.phase != Held.Phase.SETTLING) {
      return false;
    }
    held.phase = Held.Phase.GONE;
    byToken.remove(held.token, held);
    return true;
  }

  /**
   * A lease is lost: its handler is told. A settlement under way goes on, since the server's answer to it is the truth.
   * True: something was lost.
   */
  boolean lose(Held held, CancelReason reason, long now) {
    switch (held.phase) {
      case WAITING -> held.phase = Held.Phase.GONE;
      case RUNNING -> {
        held.phase = Held.Phase.LOST;
        held.lostAt = now;
        running--;
        lost.add(held);
        held.context.cancel(reason);
      }
      case SETTLING, LOST, GONE -> {
        return false;
      }
    }
    byToken.remove(held.token, held);
    return true;
  }

  /** The server answered something that was sent at {@code asked}: the lease holds for {@code left} from then on. */
  void extend(Held held, Terms terms, long asked, long left) {
    long fence = terms.fence(asked, left);
    if (fence > held.fence) {
      held.fence = fence;
      held.context.extendTo(fence);
    }
  }

  /** Until when a lease may be acted on. {@code broke} is when the stream did; never while it is live. */
  static long fenceOf(Held held, List<Terms> terms, long broke) {
    long grace = held.queue < terms.size() ? terms.get(held.queue).disconnectGrace() : Ticks.NEVER;
    boolean far = broke >= Ticks.NEVER || grace >= Ticks.NEVER;
    return far ? held.fence : Math.min(held.fence, broke + grace);
  }

  /** The leases whose fence has come. Settlements under way have none: they can do no harm late. */
  List<Held> fenced(List<Terms> terms, long broke, long now) {
    List<Held> due = new ArrayList<>();
    for (Held held : byToken.values()) {
      if (held.phase != Held.Phase.SETTLING && fenceOf(held, terms, broke) <= now) {
        due.add(held);
      }
    }
    return due;
  }

  /** When the next fence comes. */
  long nextFence(List<Terms> terms, long broke) {
    long next = Ticks.NEVER;
    for (Held held : byToken.values()) {
      if (held.phase != Held.Phase.SETTLING) {
        next = Math.min(next, fenceOf(held, terms, broke));
      }
    }
    return next;
  }

  /** Handlers that run on although their lease was lost that long ago, each told once. */
  List<Held> stubborn(long patience, long now) {
    List<Held> found = new ArrayList<>();
    for (Held held : lost) {
      if (!held.reported && now - held.lostAt >= patience) {
        held.reported = true;
        found.add(held);
      }
    }
    return found;
  }

  /** Tells every running handler to stop. */
  void cancelAll(CancelReason reason) {
    for (Held held : byToken.values()) {
      if (held.phase == Held.Phase.RUNNING) {
        held.context.cancel(reason);
      }
    }
  }

  /** Interrupts every running handler once more. */
  void interruptAll() {
    lost.forEach(held -> held.context.interrupt());
    for (Held held : byToken.values()) {
      if (held.phase == Held.Phase.RUNNING) {
        held.context.interrupt();
      }
    }
  }
}
