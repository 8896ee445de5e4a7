package dev.keywork.worker;

import dev.keywork.internal.v1.Capacity;
import dev.keywork.internal.v1.Drain;
import dev.keywork.internal.v1.Hello;
import dev.keywork.internal.v1.LeaseHeartbeat;
import dev.keywork.internal.v1.LeaseRequest;
import dev.keywork.internal.v1.Settlements;
import java.util.ArrayList;
import java.util.List;

/**
 * What the worker says on its stream: Hello, heartbeats, settlements, its capacity, that it drains.
 *
 * <p>Nothing here waits: what finds no room is sent when there is some.
 */
final class Outbound {
  private static final String SDK_NAME = "keywork-sdk-java";

  private final Driver driver;

  Outbound(Driver driver) {
    this.driver = driver;
  }

  /** Opens the session: claims every lease that is not lost. */
  void sayHello(long now) {
    Session session = driver.session;
    session.helloSent = now;
    driver.beats.opened(now);
    session.capacity = capacity();
    Hello.Builder hello = Hello.newBuilder()
        .setWorkerId(driver.setup.workerId())
        .addAllQueues(driver.setup.queues())
        .setCapacity(session.capacity)
        .setSessionTicket(session.ticket)
        .setProtocolVersion(1)
        .setSdkName(SDK_NAME)
        .setSdkVersion(Version.TEXT);
    driver.leases.held().forEach(held -> hello.addHeldLeases(held.token));
    driver.link.open(LeaseRequest.newBuilder().setHello(hello).build());
  }

  /** How many leases the session may hold: a slot is not free while a handler sits in it that lost its lease. */
  private int capacity() {
    return driver.isStopping() ? 0 : Math.max(0, driver.setup.concurrency() - driver.leases.occupiedByLost());
  }

  /** Sends what is due, as far as there is room. */
  void flush(long now) {
    Session session = driver.session;
    driver.outbox.onTime(now);
    if (!session.live) {
      return;
    }
    if (session.nextHeartbeat <= now && driver.link.hasRoom()) {
      beat(now);
    }
    sayCapacity();
    if (driver.isStopping() && !session.drainSent && driver.link.hasRoom()) {
      session.drainSent = true;
      driver.link.send(LeaseRequest.newBuilder().setDrain(Drain.getDefaultInstance()).build());
    }
    // After the drain: what is given back now is not to come to this worker again.
    while (driver.outbox.isReady() && driver.link.hasRoom()) {
      Settlements settlements = driver.outbox.take();
      if (settlements.getSettlementsCount() > 0) {
        driver.link.send(LeaseRequest.newBuilder().setSettlements(settlements).build());
      }
    }
  }

  /** Heartbeats go on until the last settlement is confirmed: leases that are being settled are listed too. */
  private void beat(long now) {
    List<Held> held = new ArrayList<>(driver.leases.held());
    driver.session.nextHeartbeat = now + driver.session.heartbeatInterval;
    int from = 0;
    do {
      int to = Math.min(from + Beats.LISTED, held.size());
      beatWith(held.subList(from, to), now);
      from = to;
    } while (from < held.size());
  }

  private void beatWith(List<Held> part, long now) {
    LeaseHeartbeat.Builder heartbeat = LeaseHeartbeat.newBuilder().setSequence(driver.beats.sent(part, now));
    part.forEach(held -> heartbeat.addLeaseTokens(held.token));
    driver.link.send(LeaseRequest.newBuilder().setHeartbeat(heartbeat).build());
  }

  private void sayCapacity() {
    int capacity = capacity();
    if (capacity != driver.session.capacity && driver.link.hasRoom()) {
      driver.session.capacity = capacity;
      Capacity level = Capacity.newBuilder().setCapacity(capacity).build();
      driver.link.send(LeaseRequest.newBuilder().setCapacity(level).build());
    }
  }
}
