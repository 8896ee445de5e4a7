/**
 * The worker's loop, on a thread of its own, that holds all state of the session.
 *
 * Handlers run on the main thread, so that one which burns CPU delays no heartbeat. Whatever happens changes the state
 * at once and asks for a turn of the loop, which does what is due; nothing in it waits.
 */
import { Backoff } from "../../backoff.js";
import type { LostReason } from "../../client/leases.js";
import { now } from "../clock.js";
import type { WorkerErrorParts } from "../errors.js";
import type { ThreadEvent } from "../events.js";
import { Order, type ThreadData, type ToMain, type ToThread } from "../protocol.js";
import { type CancelReason, Shared } from "../shared.js";
import { Beats } from "./beats.js";
import { fenceOf, type Held, Leases, type Terms } from "./leases.js";
import { Link } from "./link.js";
import { Outbox } from "./outbox.js";
import { flush, sayHello } from "./sending.js";
import { lose, moveOn, onEnd, onMessage, onSilence } from "./session.js";

/** When a handler that goes on after its cancellation is told of. */
export const STUBBORN_MS = 5_000;
/** How long releases and the last settlements may take to be confirmed. */
const FLUSH_WITHIN_MS = 2_000;
/** The longest that a timer of Node's may be set to is longer than this. */
const LONGEST_SLEEP_MS = 3_600_000;

/** Where a worker is on its way to the end. */
type Stop =
  /** Not stopping. */
  | { readonly is: "no" }
  /** Handlers run to their end until then; no job is started. */
  | { readonly is: "draining"; readonly until: number }
  /** Handlers were told to stop, and may end by themselves until then. */
  | { readonly is: "cancelling"; readonly until: number }
  /** The last wait: handlers that have not ended by then are left behind. */
  | { readonly is: "releasing"; readonly until: number };

/** What is known of the session that is open, or was last. */
export interface Session {
  /** The server has said Welcome, and the stream has not ended since. */
  live: boolean;
  helloSent: number;
  /** When the stream of the last live session broke. */
  broke: number | undefined;
  ticket: Uint8Array;
  heartbeatIntervalMs: number;
  livenessMs: number;
  nextHeartbeat: number;
  /** The capacity that the server was last told. */
  capacity: number;
  drainSent: boolean;
  drainAcknowledged: boolean;
  /** The server wants us gone: when to reconnect. */
  moveAt: number;
}

/** How the driver reaches the main thread. */
export interface MainPort {
  post(messages: ToMain[]): void;
  /** Nothing follows. */
  close(): void;
}

export class Driver {
  readonly data: ThreadData;
  readonly shared: Shared;
  readonly link: Link;
  readonly leases: Leases;
  readonly beats: Beats;
  readonly outbox = new Outbox();
  readonly backoff = new Backoff();
  readonly session: Session;
  /** Of each queue, by its number. */
  terms: readonly Terms[] = [];
  readonly #port: MainPort;
  /** Leases that wait for a handler slot. */
  #waiting: Held[] = [];
  #stop: Stop = { is: "no" };
  #order = Order.Work;
  #error: WorkerErrorParts | undefined;
  /** Results of handlers that were given up, since the session can never go on. */
  #givenUp = 0;
  /** When the leases' fences are to be looked at next. */
  #nextSweep = Number.POSITIVE_INFINITY;
  /** For the main thread, at the end of the turn. */
  #mail: ToMain[] = [];
  #turnAsked = false;
  #timer: NodeJS.Timeout | undefined;
  #over = false;

  constructor(data: ThreadData, port: MainPort) {
    const start = now();
    this.data = data;
    this.#port = port;
    this.shared = new Shared(data.shared, data.concurrency);
    this.leases = new Leases(this.shared);
    this.beats = new Beats(start);
    this.session = newSession(start);
    this.link = new Link(
      data.servers,
      {
        connected: () => sayHello(this, now()),
        message: (message) => this.#after(() => onMessage(this, message, now())),
        room: () => this.askTurn(),
        ended: (error) => this.#after(() => onEnd(this, error, now())),
      },
      start,
    );
    this.askTurn();
  }

  /** What the main thread says. */
  receive({ finished = [], order = Order.Work }: ToThread): void {
    this.#after(() => {
      const at = now();
      for (const one of finished) this.#onFinished(one, at);
      if (order > this.#order) this.#order = order;
      this.startWaiting();
    });
  }

  #after(change: () => void): void {
    if (this.#over) return;
    change();
    this.askTurn();
  }

  /** Asks for a turn of the loop, soon: what comes in together is dealt with together. */
  askTurn(): void {
    if (this.#turnAsked || this.#over) return;
    this.#turnAsked = true;
    setImmediate(() => {
      this.#turnAsked = false;
      this.#turn();
    });
  }

  #turn(): void {
    if (this.#over) return;
    const at = now();
    this.#onTime(at);
    this.#obey(at);
    if (this.#isOver(at)) {
      this.#end();
      return;
    }
    flush(this, at);
    this.#postMail();
    clearTimeout(this.#timer);
    const sleep = Math.min(Math.max(1, Math.ceil(this.#wake() - now())), LONGEST_SLEEP_MS);
    this.#timer = setTimeout(() => this.askTurn(), sleep);
  }

  #postMail(): void {
    if (this.#mail.length === 0) return;
    this.#port.post(this.#mail);
    this.#mail = [];
  }

  /** The earliest time at which something is due. */
  #wake(): number {
    // Without room for it, the room is waited for instead.
    const canBeat = this.session.live && this.link.hasRoom;
    const heartbeat = canBeat ? this.session.nextHeartbeat : Number.POSITIVE_INFINITY;
    const stop = this.#stop.is === "no" ? Number.POSITIVE_INFINITY : this.#stop.until;
    return Math.min(this.link.wake, heartbeat, this.session.moveAt, this.outbox.wake, stop, this.#nextSweep);
  }

  /** Does what is due. */
  #onTime(at: number): void {
    if (this.#nextSweep <= at) this.#sweep(at);
    if (this.link.isTooSilent(at)) onSilence(this, at);
    if (this.session.moveAt <= at) moveOn(this, at);
    if (this.link.isDueToConnect(at)) {
      this.tell({ type: "connecting", endpoint: this.link.endpoint });
      this.link.connect(at);
    }
    if (this.#stop.is !== "no" && this.#stop.until <= at) this.#stopFurther(at);
  }

  /** Stops every handler whose lease may end before it is extended. */
  #sweep(at: number): void {
    const { due, next } = this.leases.fenced(this.terms, this.session.broke, at);
    this.#nextSweep = next;
    for (const held of due) lose(this, held, "LEASE_LOST", undefined, at);
    for (const { held, cancelledForMs } of this.leases.stubborn(STUBBORN_MS, at)) {
      const { key } = held;
      this.tell({ type: "handler_ignores_cancellation", queue: this.queueOf(held), key, cancelledForMs });
    }
    if (this.leases.occupiedByLost > 0) this.sweepBy(at + STUBBORN_MS);
  }

  /** A fence may have come nearer: look at it in time. */
  sweepBy(fence: number): void {
    this.#nextSweep = Math.min(this.#nextSweep, fence);
  }

  #onFinished({ lease, outcome, ran }: NonNullable<ToThread["finished"]>[number], at: number): void {
    const held = this.leases.get(lease);
    if (held === undefined) return;
    if (fenceOf(held, this.terms, this.session.broke) <= at) lose(this, held, "LEASE_LOST", undefined, at);
    if (this.leases.finish(held, outcome, ran)) this.outbox.push(held);
    else if (ran) this.shared.count("droppedResults");
  }

  /** A delivery waits for a slot. */
  wait(held: Held): void {
    this.#waiting.push(held);
    this.sweepBy(held.fence);
  }

  /** Starts what waits, as far as there are slots. */
  startWaiting(): void {
    let taken = 0;
    while (!this.isStopping && this.leases.occupied < this.data.concurrency) {
      const held = this.#waiting[taken];
      if (held === undefined) break;
      taken += 1;
      this.#start(held);
    }
    if (taken > 0) this.#waiting = this.#waiting.slice(taken);
  }

  #start(held: Held): void {
    // One that was lost while it waited is not there any more.
    const job = this.leases.get(held.id) && this.leases.start(held);
    if (job === undefined) return;
    this.shared.count("started");
    this.#mail.push({ kind: "start", lease: held.id, slot: held.slot, job });
  }

  get isStopping(): boolean {
    return this.#stop.is !== "no";
  }

  /** Follows an order that has not been followed yet. */
  #obey(at: number): void {
    if (this.#order === Order.Drain && this.#stop.is === "no") this.#drain(at);
    if (this.#order === Order.ReleaseAll && this.#stop.is !== "releasing") {
      this.#error ??= { kind: "FORCED" };
      this.#releaseAll(at);
    }
  }

  #drain(at: number): void {
    this.tell({ type: "draining" });
    this.#stop = { is: "draining", until: at + this.data.shutdownGraceMs };
    this.giveBackWaiting();
    if (!this.session.live) this.link.hurry(at + FLUSH_WITHIN_MS);
  }

  /** Gives back what was delivered and has not started. */
  giveBackWaiting(): void {
    for (const held of this.#waiting) {
      if (this.leases.get(held.id) && this.leases.giveBack(held)) this.outbox.push(held);
    }
    this.#waiting = [];
  }

  #stopFurther(at: number): void {
    if (this.#stop.is === "draining") {
      this.#cancelAll("WORKER_SHUTDOWN");
      this.#stop = { is: "cancelling", until: at + this.data.cancelGraceMs };
    } else if (this.#stop.is === "cancelling") {
      this.#releaseAll(at);
    }
    // While it is releasing: the time is over, what is left is left.
  }

  #cancelAll(reason: CancelReason): void {
    for (const held of this.leases.cancelAll(reason)) this.mailCancel(held);
  }

  /** Tells every handler to stop, and waits a last time. The lease of one that does not end runs out by itself. */
  #releaseAll(at: number): void {
    this.#cancelAll("WORKER_SHUTDOWN");
    this.#mail.push({ kind: "abort" });
    this.giveBackWaiting();
    this.#stop = { is: "releasing", until: at + FLUSH_WITHIN_MS };
  }

  /** The session can never go on: handlers are stopped, since nothing extends their leases any more. */
  fail(error: WorkerErrorParts, at: number): void {
    this.#error = error;
    this.session.live = false;
    this.shared.live = false;
    this.link.closeNow();
    this.#givenUp = this.leases.unconfirmed;
    for (const held of [...this.leases.held()]) {
      if (!this.leases.settled(held)) lose(this, held, "LEASE_LOST", undefined, at);
    }
    this.#stop = { is: "cancelling", until: at + this.data.cancelGraceMs };
  }

  /** Stopping, and nothing is left to wait for. */
  #isOver(at: number): boolean {
    if (this.#stop.is === "no") return false;
    // A session that is being opened may bring deliveries: they are to be released, not dropped.
    const told = this.session.live ? this.session.drainAcknowledged : !this.link.isOpening;
    const done = this.leases.isEmpty && told;
    return done || (this.#stop.is === "releasing" && this.#stop.until <= at);
  }

  #end(): void {
    this.#over = true;
    clearTimeout(this.#timer);
    this.shared.live = false;
    const abandoned = this.leases.occupied;
    const unconfirmed = this.#givenUp + this.leases.unconfirmed;
    this.#cancelAll("LEASE_LOST");
    this.#mail.push({ kind: "ended", error: this.#error, abandoned, unconfirmed });
    void this.link.close().finally(() => {
      this.#postMail();
      this.#port.close();
    });
  }

  tell(event: ThreadEvent): void {
    this.#mail.push({ kind: "event", event });
  }

  /** The shared memory says that a handler is to stop: its signal is to be aborted. */
  mailCancel(held: Held): void {
    this.#mail.push({ kind: "cancel", lease: held.id });
  }

  queueOf(held: Held): string {
    return this.data.queues[held.queue]?.queue ?? "";
  }

  tellLost(held: Held, reason: LostReason | undefined): void {
    this.tell({ type: "lease_lost", queue: this.queueOf(held), key: held.key, reason });
  }

  tellSettled(held: Held, outcome: "SETTLED" | "ALREADY_SETTLED" | "LEASE_LOST"): void {
    if (!this.data.tellsSettled) return;
    const { key, jobId, fencingNumber } = held;
    this.tell({ type: "settled", queue: this.queueOf(held), key, jobId, fencingNumber, outcome });
  }
}

function newSession(at: number): Session {
  return {
    live: false,
    helloSent: at,
    broke: undefined,
    ticket: new Uint8Array(),
    heartbeatIntervalMs: Number.POSITIVE_INFINITY,
    livenessMs: Number.POSITIVE_INFINITY,
    nextHeartbeat: Number.POSITIVE_INFINITY,
    capacity: 0,
    drainSent: false,
    drainAcknowledged: false,
    moveAt: Number.POSITIVE_INFINITY,
  };
}
