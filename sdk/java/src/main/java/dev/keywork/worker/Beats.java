package dev.keywork.worker;

import java.util.ArrayDeque;
import java.util.List;

/**
 * Heartbeats on their way: what each listed, when it was sent, and what its answer proves.
 *
 * <p>Pure: time is an argument.
 */
final class Beats {
  /** The most leases that one heartbeat lists: a session of many sends several. */
  static final int LISTED = 1_000;

  /**
   * One heartbeat that is not answered yet.
   *
   * @param sequence its number
   * @param sent when it was sent
   * @param leases what it listed
   */
  record Beat(long sequence, long sent, List<Held> leases) {}

  private final ArrayDeque<Beat> unanswered = new ArrayDeque<>();
  private long sequence;
  private long basis;

  Beats(long now) {
    this.basis = now;
  }

  /** The Hello of a session is sent: whatever comes on its stream was sent later. */
  void opened(long helloSent) {
    unanswered.clear();
    basis = helloSent;
  }

  /**
   * When the newest question was sent whose answer has arrived. What the server sends from now on was sent after that,
   * so a time left that it tells counts from then at the earliest.
   */
  long basis() {
    return basis;
  }

  /** Notes a heartbeat that is being sent; gives its sequence. */
  long sent(List<Held> leases, long now) {
    sequence++;
    unanswered.add(new Beat(sequence, now, leases));
    return sequence;
  }

  /** The next heartbeat that an answer to {@code answered} answers too; null: there is none. */
  Beat answered(long answered) {
    Beat first = unanswered.peek();
    if (first == null || first.sequence > answered) {
      return null;
    }
    basis = first.sent;
    return unanswered.poll();
  }
}
