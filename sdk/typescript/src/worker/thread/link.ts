/**
 * The stream to a server: waiting to connect, opening, open.
 *
 * This module owns the connection and its silence; it neither reads nor makes what goes over it.
 */
import { createClient } from "@connectrpc/connect";
import { type Channel, openChannel } from "../../client/channels.js";
import type { Servers } from "../../client/options.js";
import { errorFrom, type KeyworkError } from "../../errors.js";
import {
  type LeaseRequest,
  type LeaseResponse,
  WorkQueue,
} from "../../generated/keywork/v1/work_queue_pb.js";
import { Outgoing } from "./outgoing.js";

/** How long a server may take from the first packet to its Welcome. */
const WELCOME_WITHIN_MS = 10_000;
/** How long the server may take to end a stream that we have ended. */
const CLOSE_WITHIN_MS = 500;

/** What happens on the link. */
export interface LinkEvents {
  /** The connection is there: gives the first message. */
  connected(): LeaseRequest;
  message(message: LeaseResponse): void;
  /** There is room for another message, after there was none. */
  room(): void;
  /** The stream, or the try to open one, ended. `undefined`: with the status OK. */
  ended(error: KeyworkError | undefined): void;
}

/** One try to hold a stream, over a connection of its own. */
interface Connection {
  readonly channel: Channel;
  readonly outgoing: Outgoing;
  readonly abort: AbortController;
  readonly ended: Promise<void>;
}

export class Link {
  readonly #servers: Servers;
  readonly #events: LinkEvents;
  #connection: Connection | undefined;
  /** When the next try is due. Infinity: never again, or not while there is a connection. */
  #connectAt: number;
  /** Which server: grows with every try. */
  #number: number;
  /** When the silence of the server becomes the end of the stream. */
  #deadline = Number.POSITIVE_INFINITY;

  constructor(servers: Servers, events: LinkEvents, now: number) {
    this.#servers = servers;
    this.#events = events;
    this.#connectAt = now;
    // Workers of one fleet start at different servers.
    this.#number = Math.floor(Math.random() * servers.endpoints.length);
  }

  get endpoint(): string {
    const { endpoints } = this.#servers;
    return endpoints[this.#number % endpoints.length] as string;
  }

  /** When the driver has to look at the link, whatever happens on it. */
  get wake(): number {
    return Math.min(this.#connectAt, this.#deadline);
  }

  isDueToConnect(now: number): boolean {
    return this.#connectAt <= now;
  }

  isTooSilent(now: number): boolean {
    return this.#deadline <= now;
  }

  /** A session has been asked for, and may hold leases that have not arrived here. */
  get isOpening(): boolean {
    return this.#connection?.outgoing.hasBegun ?? false;
  }

  /** Connects to the server in turn, and opens the stream when that is done. */
  connect(now: number): void {
    this.#connectAt = Number.POSITIVE_INFINITY;
    this.#deadline = now + WELCOME_WITHIN_MS;
    const channel = openChannel(this.#servers, this.endpoint);
    const outgoing = new Outgoing(
      () => this.#events.connected(),
      () => this.#events.room(),
    );
    const abort = new AbortController();
    const ended = this.#read(this.endpoint, channel, outgoing, abort);
    this.#connection = { channel, outgoing, abort, ended };
  }

  async #read(endpoint: string, channel: Channel, outgoing: Outgoing, abort: AbortController): Promise<void> {
    let error: KeyworkError | undefined;
    try {
      const options = { signal: abort.signal, timeoutMs: 0 };
      for await (const message of createClient(WorkQueue, channel.transport).lease(outgoing, options)) {
        if (abort.signal.aborted) return;
        this.#events.message(message);
      }
    } catch (thrown) {
      error = errorFrom(thrown, endpoint);
    }
    if (!abort.signal.aborted) this.#events.ended(error);
  }

  /** The server was heard; it may be silent for this long from now on. */
  heard(now: number, livenessMs: number): void {
    this.#deadline = now + livenessMs;
  }

  /** Waits for the server no longer than until then. */
  hurry(until: number): void {
    if (this.#connection !== undefined) this.#deadline = Math.min(this.#deadline, until);
  }

  /** Sends a message if there is room. */
  send(message: LeaseRequest): boolean {
    return this.#connection?.outgoing.send(message) ?? false;
  }

  get hasRoom(): boolean {
    return this.#connection?.outgoing.hasRoom ?? false;
  }

  /** Drops the connection; the next server's turn comes at `until`. */
  down(until: number): void {
    this.#drop();
    this.#number += 1;
    this.#connectAt = until;
  }

  /** Drops the connection and never connects again. */
  closeNow(): void {
    this.#drop();
    this.#connectAt = Number.POSITIVE_INFINITY;
  }

  #drop(): void {
    const connection = this.#connection;
    this.#connection = undefined;
    this.#deadline = Number.POSITIVE_INFINITY;
    connection?.abort.abort();
    connection?.channel.close();
  }

  /** Ends our half of the stream, waits a moment for the server's, and never connects again. */
  async close(): Promise<void> {
    const connection = this.#connection;
    this.#connectAt = Number.POSITIVE_INFINITY;
    if (connection?.outgoing.hasBegun) {
      connection.outgoing.end();
      let timer: NodeJS.Timeout | undefined;
      const patience = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, CLOSE_WITHIN_MS);
      });
      await Promise.race([connection.ended, patience]);
      clearTimeout(timer);
    }
    this.#drop();
  }
}
