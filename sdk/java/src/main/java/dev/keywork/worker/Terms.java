package dev.keywork.worker;

import dev.keywork.internal.Ticks;
import dev.keywork.internal.Wire;
import dev.keywork.internal.v1.QueueTerms;
import dev.keywork.internal.v1.Welcome;
import java.time.Duration;

/**
 * What holds for the leases of one queue, in nanoseconds.
 *
 * @param leaseDuration how long a lease lasts from its last extension
 * @param disconnectGrace how long after the stream broke the leases go to others; never by default
 */
record Terms(long leaseDuration, long disconnectGrace) {
  /** What is taken where a server does not say. */
  private static final Terms USUAL = new Terms(Duration.ofSeconds(15).toNanos(), Ticks.NEVER);

  private static final long LEAST_MARGIN = Duration.ofMillis(100).toNanos();
  private static final long MOST_MARGIN = Duration.ofSeconds(1).toNanos();

  static Terms of(Welcome welcome, String queue) {
    for (QueueTerms terms : welcome.getQueuesList()) {
      if (terms.getQueue().equals(queue)) {
        long lease = nanos(terms.getLeaseDuration());
        long grace = nanos(terms.getDisconnectGrace());
        return new Terms(lease > 0 ? lease : USUAL.leaseDuration, grace > 0 ? grace : Ticks.NEVER);
      }
    }
    return USUAL;
  }

  static long nanos(com.google.protobuf.Duration wire) {
    return Ticks.nanos(Wire.duration(wire));
  }

  /** How long before the server's deadline a handler is stopped: it needs time to notice. */
  long margin() {
    return Math.max(LEAST_MARGIN, Math.min(MOST_MARGIN, leaseDuration / 10));
  }

  /** When a handler is to be stopped: the deadline as far as it is known, less the margin. */
  long fence(long asked, long left) {
    return Math.min(Ticks.NEVER, asked + Math.max(0, left - margin()));
  }
}
