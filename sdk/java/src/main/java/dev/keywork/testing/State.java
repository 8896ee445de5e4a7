package dev.keywork.testing;

import com.google.protobuf.ByteString;
import dev.keywork.internal.Ticks;
import dev.keywork.internal.Wire;
import dev.keywork.internal.v1.DeadJob;
import dev.keywork.internal.v1.DeadReason;
import dev.keywork.internal.v1.Deliveries;
import dev.keywork.internal.v1.Delivery;
import dev.keywork.internal.v1.Hello;
import dev.keywork.internal.v1.Job;
import dev.keywork.internal.v1.JobState;
import dev.keywork.internal.v1.LeaseResponse;
import dev.keywork.internal.v1.LeasesLost;
import dev.keywork.internal.v1.LostLease;
import dev.keywork.internal.v1.LostReason;
import dev.keywork.internal.v1.ResumedLease;
import dev.keywork.internal.v1.SubmitRequest;
import dev.keywork.internal.v1.Welcome;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;

/**
 * The fake server's memory: queues, jobs, leases, and the rules of the contract over them. Everything happens under one
 * lock, which the server holds.
 */
final class State {
  /** Attempts of a job that does not say otherwise. */
  private static final int ATTEMPTS = 10;

  final FakeServer.Builder options;
  final Script script = new Script();
  final Notes notes = new Notes();
  final Map<String, FakeQueue> queues = new TreeMap<>();
  final Map<ByteString, FakeLease> leases = new LinkedHashMap<>();
  final Map<Long, FakeSession> sessions = new TreeMap<>();

  /** Tokens whose job ended by their settlement. */
  final Set<ByteString> settled = new HashSet<>();

  private long serial;

  State(FakeServer.Builder options) {
    this.options = options;
  }

  /** A number that grows: fencing numbers, sessions, dead letters. */
  long number() {
    return ++serial;
  }

  FakeQueue queue(String name) {
    return queues.computeIfAbsent(name, made -> new FakeQueue());
  }

  /** The outstanding job of a key, or null. */
  FakeQueue.Entry entry(String queue, String key) {
    FakeQueue found = queues.get(queue);
    return found == null ? null : found.jobs.get(key);
  }

  /** Accepts a job whose key is free. */
  Job accept(SubmitRequest request, Duration delay) {
    Job.Builder job = Job.newBuilder()
        .setId(request.getRequestId().isEmpty() ? UUID.randomUUID().toString() : request.getRequestId())
        .setQueue(request.getQueue())
        .setKey(request.getKey())
        .setPayload(request.getPayload())
        .setContentType(request.getContentType())
        .putAllAttributes(request.getAttributesMap())
        .setState(JobState.JOB_STATE_QUEUED)
        .setAttempt(1)
        .setMaxAttempts(request.getMaxAttempts() == 0 ? ATTEMPTS : request.getMaxAttempts())
        .setSubmittedAt(Answers.wall());
    FakeQueue.Entry entry = new FakeQueue.Entry();
    entry.job = job;
    entry.due = delay.isZero() ? 0 : Ticks.after(Ticks.now(), delay);
    FakeQueue queue = queue(request.getQueue());
    queue.accepted.put(job.getId(), job.build());
    queue.jobs.put(request.getKey(), entry);
    queue.ready.add(request.getKey());
    return job.build();
  }

  // ---- Time ----

  /** Ends the leases that ran out. */
  boolean onTime(long now) {
    List<FakeLease> late = leases.values().stream().filter(lease -> lease.deadline <= now).toList();
    for (FakeLease lease : late) {
      notes.expired++;
      takeLease(lease.token);
      retry(lease, null, "the lease ran out", DeadReason.DEAD_REASON_LEASE_EXPIRED);
      tellLost(lease, LostReason.LOST_REASON_EXPIRED);
    }
    return !late.isEmpty();
  }

  // ---- Leasing ----

  /** Leases what is ready to the sessions that have room. */
  void dispatch() {
    if (script.silent) {
      return;
    }
    for (FakeSession session : sessions.values()) {
      long held = leases.values().stream().filter(lease -> lease.session == session).count();
      int room = session.draining ? 0 : (int) (session.capacity - held);
      List<Delivery> deliveries = lease(session.queues, room, session, session.workerId);
      if (!deliveries.isEmpty()) {
        Deliveries message = Deliveries.newBuilder().addAllDeliveries(deliveries).build();
        session.send(LeaseResponse.newBuilder().setDeliveries(message).build());
      }
    }
  }

  /** Leases up to so many jobs. */
  List<Delivery> lease(List<String> names, int most, FakeSession session, String workerId) {
    List<Delivery> deliveries = new ArrayList<>();
    for (String name : names) {
      FakeQueue queue = queue(name);
      while (deliveries.size() < most) {
        String key = queue.nextReady();
        if (key == null) {
          break;
        }
        deliveries.add(leaseOne(name, key, session, workerId));
      }
    }
    return deliveries;
  }

  private Delivery leaseOne(String queue, String key, FakeSession session, String workerId) {
    long fencing = number();
    ByteString token = ByteString.copyFromUtf8(queue + '/' + fencing + '/' + UUID.randomUUID());
    long deadline = Ticks.after(Ticks.now(), options.leaseDuration);
    FakeQueue.Entry entry = entry(queue, key);
    entry.lease = token;
    entry.job.setState(JobState.JOB_STATE_LEASED).setFencingNumber(fencing).setHolder(workerId);
    leases.put(token, new FakeLease(token, queue, key, workerId, session, deadline));
    notes.delivered.add(key);
    return Delivery.newBuilder()
        .setLeaseToken(token)
        .setFencingNumber(fencing)
        .setAttempt(entry.job.getAttempt())
        .setJob(entry.job.build())
        .setTimeLeft(Answers.left(deadline))
        .build();
  }

  /** Ends a lease; its job is neither leased nor ready afterwards. Null: there is none. */
  FakeLease takeLease(ByteString token) {
    FakeLease lease = leases.remove(token);
    FakeQueue.Entry entry = lease == null ? null : entry(lease.queue, lease.key);
    if (entry != null) {
      entry.lease = null;
      entry.job.setState(JobState.JOB_STATE_QUEUED).clearHolder();
    }
    return lease;
  }

  /** Extends a lease. False: there is none. */
  boolean extend(ByteString token) {
    FakeLease lease = leases.get(token);
    if (lease != null) {
      lease.deadline = Ticks.after(Ticks.now(), options.leaseDuration);
    }
    return lease != null;
  }

  /** A session's stream has ended: its leases run out sooner where there is a grace. */
  void startGrace(FakeSession session) {
    if (options.disconnectGrace == null) {
      return;
    }
    long latest = Ticks.after(Ticks.now(), options.disconnectGrace);
    for (FakeLease lease : leases.values()) {
      if (lease.session == session) {
        lease.deadline = Math.min(lease.deadline, latest);
      }
    }
  }

  /** Goes on with the leases that a new session shows, and hands back those of its worker that it does not. */
  void resume(FakeSession session, Hello hello, Welcome.Builder welcome) {
    for (ByteString token : hello.getHeldLeasesList()) {
      FakeLease lease = leases.get(token);
      if (lease == null) {
        welcome.addLost(lost(token, LostReason.LOST_REASON_EXPIRED));
        continue;
      }
      lease.session = session;
      welcome.addResumed(
          ResumedLease.newBuilder().setLeaseToken(token).setTimeLeft(Answers.left(lease.deadline)));
    }
    List<FakeLease> stranded = leases.values().stream()
        .filter(lease -> lease.workerId.equals(hello.getWorkerId()) && lease.session != session)
        .toList();
    stranded.forEach(lease -> handBack(lease.token));
  }

  void handBack(ByteString token) {
    FakeLease lease = takeLease(token);
    if (lease != null) {
      queue(lease.queue).ready.addFirst(lease.key);
    }
  }

  /** Takes the lease of a key away from its holder. */
  void loseLease(String queue, String key, LostReason reason, boolean tell) {
    FakeQueue.Entry entry = entry(queue, key);
    FakeLease lease = entry == null || entry.lease == null ? null : takeLease(entry.lease);
    if (lease == null) {
      return;
    }
    if (reason == LostReason.LOST_REASON_CANCELLED) {
      queue(queue).jobs.remove(key);
    } else {
      queue(queue).ready.add(key);
    }
    if (tell) {
      tellLost(lease, reason);
    }
  }

  void tellLost(FakeLease lease, LostReason reason) {
    LeasesLost message = LeasesLost.newBuilder().addLeases(lost(lease.token, reason)).build();
    send(lease.session, LeaseResponse.newBuilder().setLeasesLost(message).build());
  }

  static LostLease lost(ByteString token, LostReason reason) {
    return LostLease.newBuilder().setLeaseToken(token).setReason(reason).build();
  }

  /** Sends to a session that is open, unless the script says silence. */
  void send(FakeSession session, LeaseResponse message) {
    if (session != null && !script.silent && sessions.containsKey(session.id)) {
      session.send(message);
    }
  }

  // ---- The ends of attempts ----

  void retry(FakeLease lease, Duration delay, String error, DeadReason reason) {
    FakeQueue.Entry entry = entry(lease.queue, lease.key);
    if (entry == null) {
      return;
    }
    if (entry.job.getAttempt() >= entry.job.getMaxAttempts()) {
      bury(lease, error, reason);
      return;
    }
    entry.job.setAttempt(entry.job.getAttempt() + 1).setLastError(error).setState(JobState.JOB_STATE_RETRYING);
    entry.due = Ticks.after(Ticks.now(), delay == null ? options.retryDelay : delay);
    queue(lease.queue).ready.add(lease.key);
  }

  void bury(FakeLease lease, String error, DeadReason reason) {
    FakeQueue.Entry entry = queue(lease.queue).jobs.remove(lease.key);
    if (entry == null) {
      return;
    }
    long id = number();
    DeadJob dead = DeadJob.newBuilder()
        .setDeadId(id)
        .setJob(entry.job.setLastError(error).setState(JobState.JOB_STATE_DEAD))
        .setReason(reason)
        .setDiedAt(Answers.wall())
        .build();
    queue(lease.queue).dead.put(id, dead);
  }

  List<dev.keywork.job.DeadJob> dead(String queue) {
    FakeQueue found = queues.get(queue);
    return found == null ? List.of() : found.dead.values().stream().map(Wire::deadJob).toList();
  }
}
