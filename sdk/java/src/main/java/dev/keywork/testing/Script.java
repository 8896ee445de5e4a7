package dev.keywork.testing;

import dev.keywork.errors.KeyworkException;
import dev.keywork.job.SettlementOutcome;
import java.util.ArrayDeque;
import java.util.Deque;

/** What a {@link FakeServer} does wrong. By default: nothing. */
public final class Script {
  int unwelcomeSessions;
  final Deque<KeyworkException> refusals = new ArrayDeque<>();
  boolean ignoreHeartbeats;
  boolean unconfirmedHeartbeats;
  boolean silent;
  int unansweredSettlements;
  final Deque<SettlementOutcome> settlementAnswers = new ArrayDeque<>();
  final Deque<SubmitFault> submitFaults = new ArrayDeque<>();

  Script() {}

  /**
   * The next sessions are opened and never welcomed.
   *
   * @param sessions how many
   * @return this
   */
  public Script unwelcomeSessions(int sessions) {
    this.unwelcomeSessions = sessions;
    return this;
  }

  /**
   * One more of the next sessions is refused.
   *
   * @param error with this
   * @return this
   */
  public Script refuseSession(KeyworkException error) {
    refusals.add(error);
    return this;
  }

  /**
   * No more sessions are refused.
   *
   * @return this
   */
  public Script refuseNoMore() {
    refusals.clear();
    return this;
  }

  /**
   * Heartbeats are read, extend nothing and are not answered.
   *
   * @param ignore whether
   * @return this
   */
  public Script ignoreHeartbeats(boolean ignore) {
    this.ignoreHeartbeats = ignore;
    return this;
  }

  /**
   * Heartbeats extend nothing, and the answer says that nothing could be confirmed.
   *
   * @param unconfirmed whether
   * @return this
   */
  public Script unconfirmedHeartbeats(boolean unconfirmed) {
    this.unconfirmedHeartbeats = unconfirmed;
    return this;
  }

  /**
   * Nothing is sent to any session.
   *
   * @param isSilent whether
   * @return this
   */
  public Script silent(boolean isSilent) {
    this.silent = isSilent;
    return this;
  }

  /**
   * The next settlements take effect and are not answered.
   *
   * @param settlements how many
   * @return this
   */
  public Script unansweredSettlements(int settlements) {
    this.unansweredSettlements = settlements;
    return this;
  }

  /**
   * One more of the next settlements has no effect and is answered otherwise.
   *
   * @param answer with this
   * @return this
   */
  public Script answerSettlement(SettlementOutcome answer) {
    settlementAnswers.add(answer);
    return this;
  }

  /**
   * One more of the next submits, alone or on a stream, goes wrong.
   *
   * @param fault how
   * @return this
   */
  public Script submitFault(SubmitFault fault) {
    submitFaults.add(fault);
    return this;
  }
}
