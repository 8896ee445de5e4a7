/** What a fake server does wrong on purpose, and what it has seen. */
import type { Hello } from "../generated/keywork/v1/work_queue_pb.js";
import type { FakeStatus } from "./status.js";

/** How a settlement can be answered. */
export type SettlementAnswer =
  | "SETTLED"
  | "ALREADY_SETTLED"
  | "LEASE_LOST"
  | "TRY_AGAIN"
  | "INVALID_LEASE"
  | "REJECTED";

/**
 * What goes wrong with one submit.
 *
 * - `unavailable`: nothing is stored, and it says so.
 * - `answer_lost`: the job is stored, and the answer says that it may not be.
 * - `broken`: the job is stored and the stream, or the call, breaks.
 * - a status: it is refused with this.
 */
export type SubmitFault = "unavailable" | "answer_lost" | "broken" | FakeStatus;

/** What a {@link FakeServer} does wrong. By default: nothing. Change it at any time. */
export interface Script {
  /** So many of the next sessions are opened and never welcomed. */
  unwelcomeSessions: number;
  /** The next sessions are refused with these. */
  refuseSessions: FakeStatus[];
  /** Heartbeats are read, extend nothing and are not answered. */
  ignoreHeartbeats: boolean;
  /** Heartbeats extend nothing, and the answer says that nothing could be confirmed. */
  unconfirmedHeartbeats: boolean;
  /** Nothing is sent to any session. */
  silent: boolean;
  /** So many of the next settlements take effect and are not answered. */
  unansweredSettlements: number;
  /** The next settlements have no effect and are answered with these. */
  settlementAnswers: SettlementAnswer[];
  /** The next submits, alone or with others, meet these. */
  submitFaults: SubmitFault[];
}

export function harmless(): Script {
  return {
    unwelcomeSessions: 0,
    refuseSessions: [],
    ignoreHeartbeats: false,
    unconfirmedHeartbeats: false,
    silent: false,
    unansweredSettlements: 0,
    settlementAnswers: [],
    submitFaults: [],
  };
}

/** The ways to settle a lease. */
export type SettledAs = "complete" | "retry" | "release" | "fail" | "rerun";

/** One settlement that a fake server was sent. */
export interface SeenSettlement {
  /** The key, as long as the server knows the lease. */
  readonly key: string;
  readonly as: SettledAs | "none";
  /** The error or reason that came with it. */
  readonly error: string;
  /** What was, or would have been, answered. */
  readonly answer: SettlementAnswer;
}

/** What a {@link FakeServer} has seen, in order. */
export class Seen {
  /** Hellos of sessions. */
  readonly hellos: Hello[] = [];
  /** Sessions that are open now. */
  sessions = 0;
  /** How many heartbeats came. */
  heartbeats = 0;
  /** The newest capacity that a session was set to. */
  capacity: number | undefined;
  /** Settlements, also those without effect. */
  readonly settlements: SeenSettlement[] = [];
  /** How many messages they came in. */
  settlementMessages = 0;
  /** Keys that were delivered. */
  readonly delivered: string[] = [];
  /** How many sessions asked for no more deliveries. */
  drains = 0;
  /** The `requestId`s of submits, each as often as it came. */
  readonly submits: string[] = [];
  /** How many leases ran out. */
  expired = 0;

  /** The keys that were settled in this way, where it counted. */
  settled(as: SettledAs): string[] {
    const counted = this.settlements.filter((seen) => seen.as === as && seen.answer === "SETTLED");
    return counted.map((seen) => seen.key);
  }
}
