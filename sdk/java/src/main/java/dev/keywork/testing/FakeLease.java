package dev.keywork.testing;

import com.google.protobuf.ByteString;

/** A lease of the fake server. */
final class FakeLease {
  final ByteString token;
  final String queue;
  final String key;
  final String workerId;

  /** Whose it is; null: nobody's session. */
  FakeSession session;

  long deadline;

  FakeLease(ByteString token, String queue, String key, String workerId, FakeSession session, long deadline) {
    this.token = token;
    this.queue = queue;
    this.key = key;
    this.workerId = workerId;
    this.session = session;
    this.deadline = deadline;
  }
}
