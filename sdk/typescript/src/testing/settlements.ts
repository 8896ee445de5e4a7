/** How jobs of the fake server end, or come back. */
import { create } from "@bufbuild/protobuf";
import { codeNumber, reasons } from "../errors.js";
import { DeadReason } from "../generated/keywork/v1/job_pb.js";
import {
  type Settlement,
  SettlementOutcome,
  type SettlementResult,
  SettlementResultSchema,
} from "../generated/keywork/v1/work_queue_pb.js";
import { msOf } from "../wire.js";
import type { SettlementAnswer } from "./script.js";
import { type Lease, nameOf, type State } from "./state.js";

const RERUN_REFUSED = {
  code: codeNumber("UNIMPLEMENTED"),
  reason: reasons.NOT_SERVED_YET,
  field: "rerun",
  message: "rerun: is not served yet",
};

/** Settles a lease and notes it. */
export function settle(state: State, settlement: Settlement): SettlementResult {
  const key = state.leases.get(nameOf(settlement.leaseToken))?.key ?? "";
  const answer = state.script.settlementAnswers.shift() ?? settleTruly(state, settlement);
  const { case: as = "none" } = settlement.outcome;
  state.seen.settlements.push({ key, as, error: errorOf(settlement), answer });
  const { leaseToken } = settlement;
  const error = answer === "REJECTED" && as === "rerun" ? { error: RERUN_REFUSED } : {};
  return create(SettlementResultSchema, { leaseToken, outcome: SettlementOutcome[answer], ...error });
}

function settleTruly(state: State, { leaseToken, outcome }: Settlement): SettlementAnswer {
  if (outcome.case === undefined || outcome.case === "rerun") return "REJECTED";
  const token = nameOf(leaseToken);
  const lease = state.leases.get(token);
  if (lease === undefined) return state.settled.has(token) ? "ALREADY_SETTLED" : "LEASE_LOST";
  state.settled.add(token);
  if (outcome.case === "release") state.handBack(lease);
  else endAttempt(state, lease, outcome);
  return "SETTLED";
}

function endAttempt(state: State, lease: Lease, outcome: Settlement["outcome"]): void {
  const { queue, key } = lease;
  state.takeLease(lease);
  if (outcome.case === "retry") {
    const { delay, error } = outcome.value;
    state.retry(queue, key, delay && msOf(delay), error, DeadReason.ATTEMPTS_EXHAUSTED);
  } else if (outcome.case === "fail") {
    state.bury(queue, key, outcome.value.error, DeadReason.FAILED);
  } else {
    state.queues.get(queue)?.jobs.delete(key);
  }
}

function errorOf({ outcome }: Settlement): string {
  return outcome.case === "retry" || outcome.case === "fail" ? outcome.value.error : "";
}
