package dev.keywork.testing;

import dev.keywork.internal.Wire;
import dev.keywork.internal.v1.DeadReason;
import dev.keywork.internal.v1.Settlement;
import dev.keywork.internal.v1.SettlementResult;
import dev.keywork.job.Outcome;
import dev.keywork.job.SettlementOutcome;
import java.util.Optional;

/** How leases of the fake server are settled. */
final class FakeSettlements {
  private FakeSettlements() {}

  /** Settles a lease and notes it. */
  static SettlementResult settle(State state, Settlement settlement) {
    FakeLease lease = state.leases.get(settlement.getLeaseToken());
    String key = lease == null ? "" : lease.key;
    Outcome outcome = read(settlement);
    SettlementOutcome scripted = state.script.settlementAnswers.poll();
    SettlementOutcome answer = scripted == null ? settleTruly(state, settlement, outcome) : scripted;
    state.notes.settlements.add(new SeenSettlement(key, outcome, answer));
    return SettlementResult.newBuilder()
        .setLeaseToken(settlement.getLeaseToken())
        .setOutcome(wire(answer))
        .build();
  }

  private static SettlementOutcome settleTruly(State state, Settlement settlement, Outcome outcome) {
    if (outcome instanceof Outcome.Rerun) {
      return SettlementOutcome.REJECTED;
    }
    var token = settlement.getLeaseToken();
    if (!state.leases.containsKey(token)) {
      boolean twice = state.settled.contains(token);
      return twice ? SettlementOutcome.ALREADY_SETTLED : SettlementOutcome.LEASE_LOST;
    }
    state.settled.add(token);
    if (outcome instanceof Outcome.Release) {
      state.handBack(token);
    } else {
      endAttempt(state, state.takeLease(token), outcome);
    }
    return SettlementOutcome.SETTLED;
  }

  private static void endAttempt(State state, FakeLease lease, Outcome outcome) {
    if (outcome instanceof Outcome.Retry retry) {
      state.retry(lease, retry.delay().orElse(null), retry.error(), DeadReason.DEAD_REASON_ATTEMPTS_EXHAUSTED);
    } else if (outcome instanceof Outcome.Fail fail) {
      state.bury(lease, fail.reason(), DeadReason.DEAD_REASON_FAILED);
    } else {
      state.queue(lease.queue).jobs.remove(lease.key);
    }
  }

  private static Outcome read(Settlement settlement) {
    return switch (settlement.getOutcomeCase()) {
      case RETRY -> new Outcome.Retry(
          settlement.getRetry().hasDelay()
              ? Optional.of(Wire.duration(settlement.getRetry().getDelay()))
              : Optional.empty(),
          settlement.getRetry().getError());
      case FAIL -> Outcome.fail(settlement.getFail().getError());
      case RELEASE -> Outcome.release();
      case RERUN -> Outcome.rerun(Wire.duration(settlement.getRerun().getDelay()));
      case COMPLETE, OUTCOME_NOT_SET -> Outcome.complete();
    };
  }

  private static dev.keywork.internal.v1.SettlementOutcome wire(SettlementOutcome answer) {
    return answer == SettlementOutcome.UNKNOWN
        ? dev.keywork.internal.v1.SettlementOutcome.SETTLEMENT_OUTCOME_UNSPECIFIED
        : dev.keywork.internal.v1.SettlementOutcome.valueOf("SETTLEMENT_OUTCOME_" + answer.name());
  }
}
