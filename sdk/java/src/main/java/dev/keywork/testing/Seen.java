package dev.keywork.testing;

import dev.keywork.job.Outcome;
import dev.keywork.job.SettlementOutcome;
import java.util.List;

/**
 * What a {@link FakeServer} has seen, in order.
 *
 * @param hellos sessions that were asked for
 * @param sessions sessions that are open now
 * @param heartbeats how many heartbeats came
 * @param capacity the newest capacity that a session was set to; -1: none was
 * @param settlements settlements, also those without effect
 * @param settlementMessages how many messages they came in
 * @param delivered keys that were delivered
 * @param drains how many sessions asked for no more deliveries
 * @param submits the request ids of submits, each as often as it came
 * @param expired how many leases ran out
 */
public record Seen(
    List<SeenHello> hellos,
    int sessions,
    int heartbeats,
    int capacity,
    List<SeenSettlement> settlements,
    int settlementMessages,
    List<String> delivered,
    int drains,
    List<String> submits,
    int expired) {
  /**
   * The keys that were settled in a way, where it counted.
   *
   * @param how such as {@code Outcome.Complete.class}
   * @return the keys, in the order of the settlements
   */
  public List<String> settled(Class<? extends Outcome> how) {
    return settlements.stream()
        .filter(seen -> how.isInstance(seen.outcome()) && seen.answer() == SettlementOutcome.SETTLED)
        .map(SeenSettlement::key)
        .toList();
  }

  /**
   * The keys whose jobs were completed.
   *
   * @return the keys, in the order of the settlements
   */
  public List<String> completed() {
    return settled(Outcome.Complete.class);
  }
}
