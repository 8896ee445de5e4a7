package dev.keywork.testing;

import dev.keywork.internal.v1.LeaseResponse;
import io.grpc.stub.ServerCallStreamObserver;
import java.util.List;

/** A session of the fake server. */
final class FakeSession {
  final long id;
  final String workerId;
  final List<String> queues;
  final ServerCallStreamObserver<LeaseResponse> outbound;
  int capacity;
  boolean draining;

  FakeSession(
      long id,
      String workerId,
      List<String> queues,
      int capacity,
      ServerCallStreamObserver<LeaseResponse> outbound) {
    this.id = id;
    this.workerId = workerId;
    this.queues = queues;
    this.capacity = capacity;
    this.outbound = outbound;
  }

  void send(LeaseResponse message) {
    if (!outbound.isCancelled()) {
      outbound.onNext(message);
    }
  }
}
