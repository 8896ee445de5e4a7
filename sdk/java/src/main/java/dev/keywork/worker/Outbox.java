package dev.keywork.worker;

import dev.keywork.internal.Ticks;
import dev.keywork.internal.Wire;
import dev.keywork.internal.v1.Settlement;
import dev.keywork.internal.v1.Settlements;
import java.time.Duration;
import java.util.ArrayDeque;

/** Settlements to be sent: which lease, and when. What is to be sent lies with the lease itself. Pure. */
final class Outbox {
  /** The most settlements of one message. */
  private static final int SETTLEMENTS = 1_000;

  /** How large a message may grow: well below the 4 MiB that servers usually take. */
  private static final int MESSAGE_BYTES = 1 << 20;

  /** The wait before a settlement is sent again that the server could not confirm. */
  private static final long PAUSE = Duration.ofMillis(200).toNanos();

  private record Later(long at, Held held) {}

  private final ArrayDeque<Held> ready = new ArrayDeque<>();
  private final ArrayDeque<Later> later = new ArrayDeque<>();

  void push(Held held) {
    ready.add(held);
  }

  /** The server could not confirm it: send it again after a pause. */
  void pushLater(Held held, long now) {
    later.add(new Later(now + PAUSE, held));
  }

  /** A session opened: everything unconfirmed is sent again. */
  void refill(Leases leases) {
    later.clear();
    ready.clear();
    for (Held held : leases.held()) {
      if (held.phase == Held.Phase.SETTLING) {
        ready.add(held);
      }
    }
  }

  boolean isReady() {
    return !ready.isEmpty();
  }

  long wake() {
    return later.isEmpty() ? Ticks.NEVER : later.peek().at;
  }

  /** Makes what is due ready. */
  void onTime(long now) {
    while (!later.isEmpty() && later.peek().at <= now) {
      ready.add(later.poll().held);
    }
  }

  /** The next message: everything that is ready, as far as one message takes it. */
  Settlements take() {
    Settlements.Builder message = Settlements.newBuilder();
    int bytes = 0;
    while (!ready.isEmpty() && message.getSettlementsCount() < SETTLEMENTS && bytes < MESSAGE_BYTES) {
      Held held = ready.poll();
      if (held.phase == Held.Phase.SETTLING) {
        Settlement settlement = Wire.settlement(held.token, held.outcome);
        bytes += settlement.getSerializedSize();
        message.addSettlements(settlement);
      }
    }
    return message.build();
  }
}
