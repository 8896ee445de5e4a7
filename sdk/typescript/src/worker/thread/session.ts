/** What the server says on the worker's stream, and what that changes. */
import { around } from "../../backoff.js";
import { deliveredJob, type LostReason, lostReason } from "../../client/leases.js";
import { type ErrorCode, itemError, type KeyworkError, reasons, unanswered } from "../../errors.js";
import {
  type Delivery,
  type GoAway,
  GoAwayReason,
  type HeartbeatAck,
  type LeaseResponse,
  type LostLease,
  SettlementOutcome,
  type SettlementResult,
  type Welcome,
} from "../../generated/keywork/v1/work_queue_pb.js";
import { msOf, positiveMs } from "../../wire.js";
import { retry } from "../outcome.js";
import type { CancelReason } from "../shared.js";
import { type Driver, STUBBORN_MS } from "./driver.js";
import { fenceAt, type Held, marginOf, type Terms } from "./leases.js";

/** What is taken for a lease's duration where a server does not say. */
const LEASE_DURATION_MS = 15_000;

/** With these the server refuses what this worker asks for, and would again. */
const FINAL: readonly ErrorCode[] = [
  "INVALID_ARGUMENT",
  "UNAUTHENTICATED",
  "PERMISSION_DENIED",
  "NOT_FOUND",
  "UNIMPLEMENTED",
];

export function onMessage(driver: Driver, { message }: LeaseResponse, now: number): void {
  if (driver.session.live) driver.link.heard(now, driver.session.livenessMs);
  switch (message.case) {
    case "welcome":
      onWelcome(driver, message.value, now);
      break;
    case "deliveries":
      for (const delivery of message.value.deliveries) onDelivery(driver, delivery);
      if (driver.isStopping) driver.giveBackWaiting();
      driver.startWaiting();
      break;
    case "heartbeatAck":
      onHeartbeatAck(driver, message.value, now);
      break;
    case "settlementResults":
      for (const result of message.value.results) onResult(driver, result, now);
      break;
    case "leasesLost":
      onLost(driver, message.value.leases, now);
      break;
    case "drainAck":
      driver.session.drainAcknowledged = true;
      break;
    case "goAway":
      onGoAway(driver, message.value, now);
      break;
    default:
    // Something newer than this version.
  }
}

function onWelcome(driver: Driver, welcome: Welcome, now: number): void {
  const { session } = driver;
  driver.terms = driver.data.queues.map(({ queue }) => termsOf(welcome, queue));
  const third = Math.min(...driver.terms.map((terms) => terms.leaseDurationMs)) / 3;
  session.heartbeatIntervalMs = positiveMs(welcome.heartbeatInterval) ?? third;
  session.livenessMs = positiveMs(welcome.livenessTimeout) ?? session.heartbeatIntervalMs * 2.5;
  driver.link.heard(now, session.livenessMs);
  rememberTicket(driver, welcome.sessionTicket);
  if (!session.live) onOpened(driver, now);
  for (const { leaseToken, timeLeft } of welcome.resumed) {
    const held = driver.leases.find(leaseToken);
    if (held !== undefined) {
      driver.leases.extend(held, session.helloSent, msOf(timeLeft), marginOf(driver.terms[held.queue]));
    }
  }
  onLost(driver, welcome.lost, now);
  driver.outbox.refill(driver.leases);
}

function termsOf(welcome: Welcome, queue: string): Terms {
  const found = welcome.queues.find((terms) => terms.queue === queue);
  return {
    leaseDurationMs: positiveMs(found?.leaseDuration) ?? LEASE_DURATION_MS,
    disconnectGraceMs: positiveMs(found?.disconnectGrace),
  };
}

function onOpened(driver: Driver, now: number): void {
  const { session } = driver;
  session.live = true;
  session.broke = undefined;
  session.moveAt = Number.POSITIVE_INFINITY;
  session.drainSent = false;
  session.drainAcknowledged = false;
  // What it holds was extended last through an earlier session, and may have little time left.
  const pause = driver.leases.isEmpty ? session.heartbeatIntervalMs : 0;
  session.nextHeartbeat = now + pause;
  driver.beats.opened(session.helloSent);
  driver.shared.live = true;
  driver.shared.count("sessions");
  driver.tell({ type: "ready" });
}

function rememberTicket(driver: Driver, ticket: Uint8Array): void {
  if (ticket.length > 0) driver.session.ticket = new Uint8Array(ticket);
}

function onDelivery(driver: Driver, delivery: Delivery): void {
  const job = deliveredJob(delivery);
  const queue = Math.max(
    0,
    driver.data.queues.findIndex((share) => share.queue === job.queue),
  );
  const fence = fenceAt(driver.beats.basis, msOf(delivery.timeLeft), marginOf(driver.terms[queue]));
  driver.wait(driver.leases.insert(delivery.leaseToken, queue, job, fence));
}

function onHeartbeatAck(driver: Driver, ack: HeartbeatAck, now: number): void {
  driver.backoff.reset();
  rememberTicket(driver, ack.sessionTicket);
  onLost(driver, ack.lost, now);
  // These are as before: JetStream did not answer for them.
  const unconfirmed = new Set(ack.unconfirmed.map((token) => driver.leases.find(token)?.id));
  for (const beat of driver.beats.answered(ack.sequence)) {
    for (const id of beat.leases) {
      const held = driver.leases.get(id);
      if (held === undefined || unconfirmed.has(id)) continue;
      const terms = driver.terms[held.queue];
      if (terms !== undefined) {
        driver.leases.extend(held, beat.sent, terms.leaseDurationMs, marginOf(terms));
      }
    }
  }
}

function onLost(driver: Driver, lost: readonly LostLease[], now: number): void {
  for (const { leaseToken, reason } of lost) {
    const held = driver.leases.find(leaseToken);
    if (held === undefined) continue;
    const why = lostReason(reason);
    lose(driver, held, why === "CANCELLED" ? "JOB_CANCELLED" : "LEASE_LOST", why, now);
  }
}

/** A lease is lost. `why` is what the server said, if it did. */
export function lose(
  driver: Driver,
  held: Held,
  reason: CancelReason,
  why: LostReason | undefined,
  now: number,
): void {
  const running = held.phase.is === "running";
  if (!driver.leases.lose(held, reason, now)) return;
  if (running) driver.mailCancel(held);
  driver.shared.count("leasesLost");
  driver.tellLost(held, why);
  driver.sweepBy(now + STUBBORN_MS);
}

function onResult(driver: Driver, result: SettlementResult, now: number): void {
  const held = driver.leases.find(result.leaseToken);
  if (held === undefined) return;
  switch (result.outcome) {
    case SettlementOutcome.SETTLED:
    case SettlementOutcome.ALREADY_SETTLED:
      onSettled(driver, held, result.outcome);
      break;
    case SettlementOutcome.LEASE_LOST:
      onSettledTooLate(driver, held, "EXPIRED");
      break;
    case SettlementOutcome.INVALID_LEASE:
      onSettledTooLate(driver, held, "INVALID");
      break;
    case SettlementOutcome.REJECTED:
      onRejected(driver, held, result);
      break;
    default:
      driver.outbox.pushLater(held, now);
  }
}

function onSettled(driver: Driver, held: Held, outcome: SettlementOutcome): void {
  if (!driver.leases.settled(held)) return;
  driver.shared.count("settled");
  driver.tellSettled(held, outcome === SettlementOutcome.SETTLED ? "SETTLED" : "ALREADY_SETTLED");
}

function onSettledTooLate(driver: Driver, held: Held, why: LostReason): void {
  if (!driver.leases.settled(held)) return;
  driver.shared.count("leasesLost");
  driver.shared.count("droppedResults");
  driver.tellLost(held, why);
  driver.tellSettled(held, "LEASE_LOST");
}

/**
 * The lease is as before: the job is tried again after its backoff, with the reason as its error. When that is refused
 * too, the lease is left to run out.
 */
function onRejected(driver: Driver, held: Held, { error }: SettlementResult): void {
  if (held.phase.is !== "settling") return;
  const text = error === undefined ? "no reason given" : itemError(error).message;
  driver.tell({ type: "settlement_rejected", queue: driver.queueOf(held), key: held.key, error: text });
  if (held.phase.outcome.as === "retry" && !held.phase.outcome.chosen) {
    driver.leases.settled(held);
    return;
  }
  driver.leases.settleAs(held, retry(`the server refused the settlement: ${text}`));
  driver.outbox.push(held);
}

function onGoAway(driver: Driver, away: GoAway, now: number): void {
  if (away.reason === GoAwayReason.SUPERSEDED) {
    driver.fail({ kind: "SUPERSEDED" }, now);
    return;
  }
  driver.session.moveAt = now + around(msOf(away.reconnectDelay));
}

/** Leaves a server that wants us gone for the next one. */
export function moveOn(driver: Driver, now: number): void {
  driver.session.moveAt = Number.POSITIVE_INFINITY;
  breakOff(driver, "the server wants the session to go elsewhere", now);
  driver.link.down(now);
}

export function onSilence(driver: Driver, now: number): void {
  const what = driver.session.live ? "fell silent" : "did not say Welcome in time";
  onEnd(driver, unanswered(`${driver.link.endpoint} ${what}`, "UNAVAILABLE"), now);
}

/**
 * The stream ended, or could not be opened. Unasked, whatever its status: reconnect. Only a refusal of what we ask for
 * ends the worker.
 */
export function onEnd(driver: Driver, error: KeyworkError | undefined, now: number): void {
  // The GoAway before it may not have arrived.
  if (error?.reason === reasons.SESSION_SUPERSEDED) {
    driver.fail({ kind: "SUPERSEDED" }, now);
    return;
  }
  if (error !== undefined && FINAL.includes(error.code) && !error.isOutage()) {
    driver.fail({ kind: "REFUSED", cause: error.parts }, now);
    return;
  }
  breakOff(driver, error?.message ?? "the server ended the stream", now);
  const { moveAt } = driver.session;
  driver.session.moveAt = Number.POSITIVE_INFINITY;
  driver.link.down(Number.isFinite(moveAt) ? Math.max(moveAt, now) : now + driver.backoff.next());
}

function breakOff(driver: Driver, error: string, now: number): void {
  driver.shared.live = false;
  if (driver.session.live) {
    driver.session.live = false;
    driver.session.broke = now;
    // Where there is a grace, fences have come nearer.
    driver.sweepBy(now);
  }
  driver.tell({ type: "degraded", endpoint: driver.link.endpoint, error });
}
