package dev.keywork.worker;

import com.google.protobuf.ByteString;
import dev.keywork.errors.KeyworkException;
import dev.keywork.errors.Reasons;
import dev.keywork.internal.Backoff;
import dev.keywork.internal.Ticks;
import dev.keywork.internal.Wire;
import dev.keywork.internal.v1.Deliveries;
import dev.keywork.internal.v1.Delivery;
import dev.keywork.internal.v1.GoAway;
import dev.keywork.internal.v1.GoAwayReason;
import dev.keywork.internal.v1.HeartbeatAck;
import dev.keywork.internal.v1.LeaseResponse;
import dev.keywork.internal.v1.LostLease;
import dev.keywork.internal.v1.ResumedLease;
import dev.keywork.internal.v1.SettlementResult;
import dev.keywork.internal.v1.Welcome;
import dev.keywork.job.Job;
import dev.keywork.job.LostReason;
import dev.keywork.job.Outcome;
import dev.keywork.job.SettlementOutcome;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** What the server says on the worker's stream, and what that changes. */
final class Inbound {
  private static final double BEATS_OF_SILENCE = 2.5;

  private final Driver driver;

  Inbound(Driver driver) {
    this.driver = driver;
  }

  void onMessage(LeaseResponse message, long now) {
    if (driver.session.live) {
      driver.link.heard(now, driver.session.liveness);
    }
    switch (message.getMessageCase()) {
      case WELCOME -> onWelcome(message.getWelcome(), now);
      case DELIVERIES -> onDeliveries(message.getDeliveries(), now);
      case HEARTBEAT_ACK -> onHeartbeatAck(message.getHeartbeatAck(), now);
      case SETTLEMENT_RESULTS ->
          message.getSettlementResults().getResultsList().forEach(result -> onResult(result, now));
      case LEASES_LOST -> onLost(message.getLeasesLost().getLeasesList(), now);
      case DRAIN_ACK -> driver.session.drainAcknowledged = true;
      case GO_AWAY -> onGoAway(message.getGoAway(), now);
      case MESSAGE_NOT_SET -> {
        // Something newer than this version.
      }
    }
  }

  private void onWelcome(Welcome welcome, long now) {
    Session session = driver.session;
    driver.terms = driver.setup.queues().stream().map(queue -> Terms.of(welcome, queue.getQueue())).toList();
    long shortest = driver.terms.stream().mapToLong(Terms::leaseDuration).min().orElseThrow();
    session.heartbeatInterval = positive(Terms.nanos(welcome.getHeartbeatInterval()), shortest / 3);
    long silence = (long) (session.heartbeatInterval * BEATS_OF_SILENCE);
    session.liveness = positive(Terms.nanos(welcome.getLivenessTimeout()), silence);
    driver.link.heard(now, session.liveness);
    rememberTicket(welcome.getSessionTicket());
    if (!session.live) {
      onOpened(now);
    }
    for (ResumedLease resumed : welcome.getResumedList()) {
      Held held = driver.leases.find(resumed.getLeaseToken());
      if (held != null) {
        driver.leases.extend(held, termsOf(held), session.helloSent, Terms.nanos(resumed.getTimeLeft()));
      }
    }
    onLost(welcome.getLostList(), now);
    driver.outbox.refill(driver.leases);
  }

  private static long positive(long told, long usual) {
    return told > 0 ? told : usual;
  }

  private void onOpened(long now) {
    Session session = driver.session;
    session.live = true;
    session.broke = Ticks.NEVER;
    session.moveAt = Ticks.NEVER;
    session.drainSent = false;
    session.drainAcknowledged = false;
    // What it holds was extended last through an earlier session, and may have little time left.
    session.nextHeartbeat = driver.leases.isEmpty() ? now + session.heartbeatInterval : now;
    driver.healthy = true;
    driver.counters.sessions.increment();
    driver.teller.tell(new WorkerEvent.Ready());
  }

  private Terms termsOf(Held held) {
    return driver.terms.get(held.queue);
  }

  private void onDeliveries(Deliveries deliveries, long now) {
    if (driver.terms.isEmpty()) {
      // Before Welcome: no server does that.
      return;
    }
    deliveries.getDeliveriesList().forEach(this::onDelivery);
    if (driver.isStopping()) {
      driver.giveBackWaiting();
    }
    driver.startWaiting(now);
  }

  private void onDelivery(Delivery delivery) {
    Job job = Wire.jobBuilder(delivery.getJob())
        .attempt(delivery.getAttempt())
        .fencingNumber(delivery.getFencingNumber())
        .build();
    int queue = numberOf(job.queue());
    Terms terms = driver.terms.get(queue);
    long fence = terms.fence(driver.beats.basis(), Terms.nanos(delivery.getTimeLeft()));
    Held held = new Held(delivery.getLeaseToken(), queue, job, fence);
    driver.leases.add(held);
    driver.waiting.add(held);
    driver.sweepBy(fence);
  }

  private int numberOf(String queue) {
    for (int number = 0; number < driver.setup.queues().size(); number++) {
      if (driver.setup.queues().get(number).getQueue().equals(queue)) {
        return number;
      }
    }
    return 0;
  }

  private void onHeartbeatAck(HeartbeatAck ack, long now) {
    driver.backoff.reset();
    rememberTicket(ack.getSessionTicket());
    onLost(ack.getLostList(), now);
    // These are as before: JetStream did not answer for them.
    Set<ByteString> unconfirmed = new HashSet<>(ack.getUnconfirmedList());
    Beats.Beat beat = driver.beats.answered(ack.getSequence());
    for (; beat != null; beat = driver.beats.answered(ack.getSequence())) {
      for (Held held : beat.leases()) {
        if (!unconfirmed.contains(held.token)) {
          Terms terms = termsOf(held);
          driver.leases.extend(held, terms, beat.sent(), terms.leaseDuration());
        }
      }
    }
  }

  private void rememberTicket(ByteString ticket) {
    if (!ticket.isEmpty()) {
      driver.session.ticket = ticket;
    }
  }

  private void onLost(List<LostLease> lost, long now) {
    for (LostLease lease : lost) {
      Held held = driver.leases.find(lease.getLeaseToken());
      if (held != null) {
        LostReason why = Wire.lostReason(lease.getReason());
        boolean cancelled = why == LostReason.CANCELLED;
        driver.lose(held, cancelled ? CancelReason.JOB_CANCELLED : CancelReason.LEASE_LOST, why, now);
      }
    }
  }

  // ---- Settlements ----

  private void onResult(SettlementResult result, long now) {
    Held held = driver.leases.find(result.getLeaseToken());
    if (held == null || held.phase != Held.Phase.SETTLING) {
      return;
    }
    SettlementOutcome outcome = Wire.settlementOutcome(result.getOutcome());
    switch (outcome) {
      case SETTLED, ALREADY_SETTLED -> {
        driver.leases.settled(held);
        driver.counters.settled.increment();
        tellSettled(held, outcome);
      }
      case LEASE_LOST, INVALID_LEASE -> onSettledTooLate(held, outcome);
      case REJECTED -> onRejected(held, result);
      case TRY_AGAIN, UNKNOWN -> driver.outbox.pushLater(held, now);
    }
  }

  private void tellSettled(Held held, SettlementOutcome outcome) {
    Job job = held.job;
    driver.teller.tellOften(
        () -> new WorkerEvent.Settled(job.queue(), job.key(), job.id(), job.fencingNumber(), outcome));
  }

  private void onSettledTooLate(Held held, SettlementOutcome outcome) {
    driver.leases.settled(held);
    driver.counters.leasesLost.increment();
    driver.counters.droppedResults.increment();
    boolean invalid = outcome == SettlementOutcome.INVALID_LEASE;
    driver.tellLost(held, invalid ? LostReason.INVALID : LostReason.EXPIRED);
    tellSettled(held, outcome);
  }

  /**
   * The lease is as before: the job is tried again after its backoff, with the reason as its error. When that is
   * refused too, the lease is left to run out.
   */
  private void onRejected(Held held, SettlementResult result) {
    String text = Wire.error(result.getError()).getMessage();
    driver.teller.tell(new WorkerEvent.SettlementRejected(held.job.queue(), held.job.key(), text));
    if (held.outcome instanceof Outcome.Retry retry && retry.delay().isEmpty()) {
      driver.leases.settled(held);
      return;
    }
    held.outcome = Outcome.retry("the server refused the settlement: " + text);
    driver.outbox.push(held);
  }

  // ---- The end of a session ----

  private void onGoAway(GoAway away, long now) {
    if (away.getReason() == GoAwayReason.GO_AWAY_REASON_SUPERSEDED) {
      driver.fail(WorkerException.superseded(driver.setup.workerId()), now);
      return;
    }
    Duration delay = Wire.duration(away.getReconnectDelay());
    driver.session.moveAt = Ticks.after(now, Backoff.around(delay));
  }

  /** Leaves a server that wants us gone for the next one. */
  void moveOn(long now) {
    driver.session.moveAt = Ticks.NEVER;
    breakOff("the server wants the session to go elsewhere", now);
    driver.link.down(now);
  }

  void onSilence(long now) {
    reconnect(driver.session.live ? "the server fell silent" : "the server did not say Welcome in time", now);
  }

  /**
   * The stream ended, or could not be opened; {@code error} is null where it ended OK. Unasked, whatever its status:
   * reconnect. Only a refusal of what we ask for ends the worker.
   */
  void onEnd(KeyworkException error, long now) {
    if (error == null) {
      reconnect("the server ended the stream", now);
    } else if (error.reason().equals(Reasons.SESSION_SUPERSEDED)) {
      // The GoAway before it may not have arrived.
      driver.fail(WorkerException.superseded(driver.setup.workerId()), now);
    } else if (isFinal(error)) {
      driver.fail(WorkerException.refused(error), now);
    } else {
      reconnect(error.getMessage(), now);
    }
  }

  private void reconnect(String why, long now) {
    breakOff(why, now);
    long asked = driver.session.moveAt;
    driver.session.moveAt = Ticks.NEVER;
    long then = asked < Ticks.NEVER ? Math.max(asked, now) : Ticks.after(now, driver.backoff.next());
    driver.link.down(then);
  }

  private void breakOff(String why, long now) {
    driver.healthy = false;
    driver.slowAt = Ticks.NEVER;
    if (driver.session.live) {
      driver.session.live = false;
      driver.session.broke = now;
      // Where there is a grace, fences have come nearer.
      driver.sweepBy(now);
    }
    driver.teller.tell(new WorkerEvent.Degraded(why));
  }

  /** The server refuses what this worker asks for, and would again. */
  private static boolean isFinal(KeyworkException error) {
    return switch (error.code()) {
      case INVALID_ARGUMENT, UNAUTHENTICATED, PERMISSION_DENIED, NOT_FOUND, UNIMPLEMENTED -> !error.isOutage();
      default -> false;
    };
  }
}
