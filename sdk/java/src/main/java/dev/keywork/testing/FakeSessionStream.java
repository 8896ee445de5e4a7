package dev.keywork.testing;

import com.google.protobuf.ByteString;
import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.Wire;
import dev.keywork.internal.v1.DrainAck;
import dev.keywork.internal.v1.GoAway;
import dev.keywork.internal.v1.Hello;
import dev.keywork.internal.v1.HeartbeatAck;
import dev.keywork.internal.v1.LeaseHeartbeat;
import dev.keywork.internal.v1.LeaseRequest;
import dev.keywork.internal.v1.LeaseResponse;
import dev.keywork.internal.v1.LostReason;
import dev.keywork.internal.v1.QueueSubscription;
import dev.keywork.internal.v1.QueueTerms;
import dev.keywork.internal.v1.Settlement;
import dev.keywork.internal.v1.SettlementResults;
import dev.keywork.internal.v1.Settlements;
import dev.keywork.internal.v1.Welcome;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.List;

/** The worker's half of one {@code Lease} stream of the fake server. */
final class FakeSessionStream implements StreamObserver<LeaseRequest> {
  private final FakeServer server;
  private final ServerCallStreamObserver<LeaseResponse> outbound;
  private FakeSession session;

  FakeSessionStream(FakeServer server, ServerCallStreamObserver<LeaseResponse> outbound) {
    this.server = server;
    this.outbound = outbound;
    outbound.setOnCancelHandler(this::gone);
  }

  @Override
  public void onNext(LeaseRequest message) {
    server.change(state -> {
      switch (message.getMessageCase()) {
        case HELLO -> hello(state, message.getHello());
        case CAPACITY -> {
          state.notes.capacity = message.getCapacity().getCapacity();
          session.capacity = message.getCapacity().getCapacity();
        }
        case HEARTBEAT -> heartbeat(state, message.getHeartbeat());
        case SETTLEMENTS -> settlements(state, message.getSettlements());
        case DRAIN -> {
          state.notes.drains++;
          session.draining = true;
          state.send(session, LeaseResponse.newBuilder().setDrainAck(DrainAck.getDefaultInstance()).build());
        }
        case MESSAGE_NOT_SET -> {
          // Something newer than this version.
        }
      }
    });
  }

  @Override
  public void onError(Throwable error) {
    gone();
  }

  @Override
  public void onCompleted() {
    gone();
    server.change(state -> {
      if (!outbound.isCancelled() && session != null) {
        outbound.onCompleted();
      }
    });
  }

  private void gone() {
    server.change(state -> {
      if (session != null && state.sessions.remove(session.id) != null) {
        state.startGrace(session);
        state.notes.sessions = state.sessions.size();
      }
    });
  }

  private void hello(State state, Hello hello) {
    KeyworkException refusal = state.script.refusals.poll();
    if (refusal != null) {
      outbound.onError(Answers.status(refusal));
      return;
    }
    supersede(state, hello.getWorkerId());
    List<String> queues = hello.getQueuesList().stream().map(QueueSubscription::getQueue).toList();
    session = new FakeSession(state.number(), hello.getWorkerId(), queues, hello.getCapacity(), outbound);
    state.sessions.put(session.id, session);
    state.notes.capacity = hello.getCapacity();
    state.notes.sessions = state.sessions.size();
    state.notes.hellos.add(new SeenHello(
        hello.getWorkerId(),
        hello.getCapacity(),
        hello.getHeldLeasesCount(),
        hello.getSessionTicket().toStringUtf8()));
    if (state.script.unwelcomeSessions > 0) {
      // No deliveries either: it is a session that does not work.
      state.script.unwelcomeSessions--;
      session.capacity = 0;
    } else {
      welcome(state, hello);
    }
  }

  /** A newer session of a worker takes over from an older one. */
  private static void supersede(State state, String workerId) {
    List<FakeSession> older =
        state.sessions.values().stream().filter(one -> one.workerId.equals(workerId)).toList();
    for (FakeSession one : older) {
      GoAway away = GoAway.newBuilder()
          .setReason(dev.keywork.internal.v1.GoAwayReason.GO_AWAY_REASON_SUPERSEDED)
          .build();
      state.send(one, LeaseResponse.newBuilder().setGoAway(away).build());
      state.sessions.remove(one.id);
      one.outbound.onCompleted();
    }
  }

  private void welcome(State state, Hello hello) {
    Duration lease = state.options.leaseDuration;
    Welcome.Builder welcome = Welcome.newBuilder()
        .setSessionId(Long.toString(session.id))
        .setWorkerId(hello.getWorkerId())
        .setHeartbeatInterval(Wire.duration(lease.dividedBy(3)))
        .setLivenessTimeout(Wire.duration(lease.multipliedBy(5).dividedBy(6)))
        .setSessionTicket(ByteString.copyFromUtf8("ticket-" + session.id));
    for (String queue : session.queues) {
      QueueTerms.Builder terms = QueueTerms.newBuilder().setQueue(queue).setLeaseDuration(Wire.duration(lease));
      if (state.options.disconnectGrace != null) {
        terms.setDisconnectGrace(Wire.duration(state.options.disconnectGrace));
      }
      welcome.addQueues(terms);
    }
    state.resume(session, hello, welcome);
    state.send(session, LeaseResponse.newBuilder().setWelcome(welcome).build());
  }

  private void heartbeat(State state, LeaseHeartbeat heartbeat) {
    state.notes.heartbeats++;
    if (state.script.ignoreHeartbeats) {
      return;
    }
    HeartbeatAck.Builder ack = HeartbeatAck.newBuilder()
        .setSequence(heartbeat.getSequence())
        .setSessionTicket(ByteString.copyFromUtf8("ticket-" + session.id + '-' + heartbeat.getSequence()));
    for (ByteString token : heartbeat.getLeaseTokensList()) {
      if (state.script.unconfirmedHeartbeats) {
        ack.addUnconfirmed(token);
      } else if (!state.extend(token)) {
        ack.addLost(State.lost(token, LostReason.LOST_REASON_EXPIRED));
      }
    }
    state.send(session, LeaseResponse.newBuilder().setHeartbeatAck(ack).build());
  }

  private void settlements(State state, Settlements settlements) {
    state.notes.settlementMessages++;
    SettlementResults.Builder results = SettlementResults.newBuilder();
    for (Settlement settlement : settlements.getSettlementsList()) {
      var result = FakeSettlements.settle(state, settlement);
      if (state.script.unansweredSettlements > 0) {
        state.script.unansweredSettlements--;
      } else {
        results.addResults(result);
      }
    }
    if (results.getResultsCount() > 0) {
      state.send(session, LeaseResponse.newBuilder().setSettlementResults(results).build());
    }
  }
}
