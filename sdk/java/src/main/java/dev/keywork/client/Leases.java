package dev.keywork.client;

import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.Wire;
import dev.keywork.internal.v1.AckRequest;
import dev.keywork.internal.v1.Delivery;
import dev.keywork.internal.v1.HeartbeatRequest;
import dev.keywork.internal.v1.HeartbeatResult;
import dev.keywork.internal.v1.WorkQueueGrpc;
import dev.keywork.job.Job;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Optional;

/**
 * Leasing without a worker, for programs that run now and then: the caller keeps the deadlines. {@link
 * KeyworkClient#leases()} has it.
 */
public final class Leases {
  private final OneCall calls;

  Leases(OneCall calls) {
    this.calls = calls;
  }

  /**
   * Leases jobs without a worker, for programs that run now and then. The caller keeps the deadlines.
   *
   * @param pull what
   * @return the jobs; none when the wait ended without one
   */
  public List<Leased> pull(Pull pull) {
    Duration limit = pull.patience().plus(calls.options().callTimeout());
    var answer = calls.once(WorkQueueGrpc.getPullMethod(), pull.request(), limit);
    return answer.getDeliveriesList().stream().map(Leases::leased).toList();
  }

  private static Leased leased(Delivery delivery) {
    Job job = Wire.jobBuilder(delivery.getJob())
        .attempt(delivery.getAttempt())
        .fencingNumber(delivery.getFencingNumber())
        .build();
    return new Leased(LeaseToken.of(delivery.getLeaseToken()), job, Wire.duration(delivery.getTimeLeft()));
  }

  /**
   * Extends leases. When the call fails they are as before, or were extended.
   *
   * @param tokens the leases: at most 1,000
   * @return one result for each, in their order
   */
  public List<LeaseExtension> heartbeat(Collection<LeaseToken> tokens) {
    if (tokens.isEmpty()) {
      return List.of();
    }
    HeartbeatRequest.Builder request = HeartbeatRequest.newBuilder();
    tokens.forEach(token -> request.addLeaseTokens(token.wire()));
    return calls.once(WorkQueueGrpc.getHeartbeatMethod(), request.build()).getResultsList().stream()
        .map(Leases::extension)
        .toList();
  }

  private static LeaseExtension extension(HeartbeatResult result) {
    if (result.getLost() != dev.keywork.internal.v1.LostReason.LOST_REASON_UNSPECIFIED) {
      return new LeaseExtension.Lost(Wire.lostReason(result.getLost()));
    }
    LeaseToken token = LeaseToken.of(result.getLeaseToken());
    if (result.getTryAgain() || !result.hasTimeLeft()) {
      return new LeaseExtension.TryAgain(token);
    }
    return new LeaseExtension.Extended(token, Wire.duration(result.getTimeLeft()));
  }

  /**
   * Settles leases. Repeating it is safe.
   *
   * @param settlements at most 1,000
   * @return one result for each, in their order
   */
  public List<SettlementResult> ack(Collection<Settlement> settlements) {
    if (settlements.isEmpty()) {
      return List.of();
    }
    AckRequest.Builder request = AckRequest.newBuilder();
    settlements.forEach(one -> request.addSettlements(Wire.settlement(one.token().wire(), one.outcome())));
    return calls.once(WorkQueueGrpc.getAckMethod(), request.build()).getResultsList().stream()
        .map(Leases::settled)
        .toList();
  }

  private static SettlementResult settled(dev.keywork.internal.v1.SettlementResult wire) {
    Optional<KeyworkException> error = wire.hasError() ? Optional.of(Wire.error(wire.getError())) : Optional.empty();
    return new SettlementResult(Wire.settlementOutcome(wire.getOutcome()), error);
  }
}
