/**
 * Settlements to be sent: which lease, and when.
 *
 * What is to be sent lies with the lease itself; this is only the order. Pure.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import { wireSettlement } from "../../client/leases.js";
import type { SettlementSchema } from "../../generated/keywork/v1/work_queue_pb.js";
import type { Outcome } from "../outcome.js";
import type { Held, Leases } from "./leases.js";

/** The most settlements of one message. */
const SETTLEMENTS = 1_000;
/** How large a message may grow: well below the 4 MiB that servers usually take. */
const MESSAGE_BYTES = 1 << 20;
/** The wait before a settlement is sent again that the server could not confirm. */
const PAUSE_MS = 200;

export class Outbox {
  #ready: Held[] = [];
  #later: { readonly at: number; readonly held: Held }[] = [];

  push(held: Held): void {
    this.#ready.push(held);
  }

  /** The server could not confirm it: send it again after a pause. */
  pushLater(held: Held, now: number): void {
    this.#later.push({ at: now + PAUSE_MS, held });
  }

  /** A session opened: everything unconfirmed is sent again. */
  refill(leases: Leases): void {
    this.#later = [];
    this.#ready = [...leases.held()].filter((held) => held.phase.is === "settling");
  }

  get isReady(): boolean {
    return this.#ready.length > 0;
  }

  /** When something becomes ready. */
  get wake(): number {
    return this.#later[0]?.at ?? Number.POSITIVE_INFINITY;
  }

  /** Makes what is due ready. */
  onTime(now: number): void {
    while (this.wake <= now) {
      const due = this.#later.shift();
      if (due !== undefined) this.#ready.push(due.held);
    }
  }

  /** The next message: everything that is ready, as far as one message takes it. */
  take(leases: Leases): MessageInitShape<typeof SettlementSchema>[] {
    const settlements: MessageInitShape<typeof SettlementSchema>[] = [];
    let bytes = 0;
    let taken = 0;
    for (const held of this.#ready) {
      if (settlements.length === SETTLEMENTS || bytes >= MESSAGE_BYTES) break;
      taken += 1;
      // It may have been confirmed since.
      if (held.phase.is !== "settling" || leases.get(held.id) === undefined) continue;
      bytes += held.token.length + sizeOf(held.phase.outcome);
      settlements.push(wireSettlement(held.token, held.phase.outcome));
    }
    this.#ready = this.#ready.slice(taken);
    return settlements;
  }
}

/** About how many bytes an outcome takes. */
function sizeOf(outcome: Outcome): number {
  switch (outcome.as) {
    case "retry":
      return outcome.error.length * 3;
    case "fail":
      return outcome.reason.length * 3;
    case "rerun":
      return outcome.payload?.length ?? 0;
    default:
      return 8;
  }
}
