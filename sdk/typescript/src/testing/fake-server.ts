/** The fake server: what a test holds in its hands. */
import { createServer, type Http2Server, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import { inspect } from "node:util";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { Client } from "../client/client.js";
import type { LostReason } from "../client/leases.js";
import { GoAwayReason, LostReason as WireLostReason } from "../generated/keywork/v1/work_queue_pb.js";
import { type DeadJob, deadJobOf, type Job, jobOf } from "../job.js";
import { durationOf } from "../wire.js";
import { Fake } from "./fake.js";
import type { Script, Seen } from "./script.js";
import { routes } from "./services.js";
import { type FakeStatus, statusError } from "./status.js";

/** How often deadlines are looked at. */
const TICK_MS = 5;
/** How long {@link FakeServer.until} waits. */
const PATIENCE_MS = 20_000;

/** How a {@link FakeServer} treats leases. */
export interface FakeServerOptions {
  /** How long a lease lasts from its last extension. Default: 15,000; here it may be shorter than servers allow. */
  readonly leaseDurationMs?: number;
  /** After a stream broke, its leases go to others after this long. Default: at their deadline. */
  readonly disconnectGraceMs?: number;
  /** The wait before another attempt, where the handler chose none. Default: 10. */
  readonly retryDelayMs?: number;
}

/**
 * A server for tests: speaks the real contract over a real socket and keeps everything in memory. Keys are unique,
 * leases have deadlines, dead letters are kept. It does what it is told wrong on purpose, by its script. It stores
 * nothing and promises nothing about speed.
 *
 * It lives on the thread that started it: a handler that burns CPU there keeps the server from answering, too.
 */
export class FakeServer implements AsyncDisposable {
  readonly #fake: Fake;
  readonly #server: Http2Server;
  readonly #connections = new Set<ServerHttp2Session>();
  readonly #ticks: NodeJS.Timeout;

  private constructor(options: FakeServerOptions) {
    this.#fake = new Fake({
      leaseDurationMs: options.leaseDurationMs ?? 15_000,
      disconnectGraceMs: options.disconnectGraceMs,
      retryDelayMs: options.retryDelayMs ?? 10,
    });
    this.#server = createServer(connectNodeAdapter({ routes: routes(this.#fake) }));
    this.#server.on("session", (session) => {
      this.#connections.add(session);
      session.on("close", () => this.#connections.delete(session));
    });
    this.#ticks = setInterval(() => {
      if (this.#fake.state.onTime()) this.#fake.change(() => undefined);
    }, TICK_MS);
  }

  /** Starts one on a free port of 127.0.0.1. */
  static async start(options: FakeServerOptions = {}): Promise<FakeServer> {
    const server = new FakeServer(options);
    await new Promise<void>((resolve, reject) => {
      server.#server.once("error", reject);
      server.#server.listen(0, "127.0.0.1", resolve);
    });
    return server;
  }

  /** Where it listens, as a URL. */
  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** A client of it. */
  client(): Client {
    return new Client(this.endpoint);
  }

  /** What it does wrong from now on; change it at any time. */
  get script(): Script {
    return this.#fake.state.script;
  }

  /** What it has seen so far. */
  get seen(): Seen {
    return this.#fake.state.seen;
  }

  /** The outstanding job of a key, or `undefined`. */
  outstanding(queue: string, key: string): Job | undefined {
    const job = this.#fake.state.outstanding(queue, key);
    return job && jobOf(job);
  }

  /** The dead letters of a queue. */
  dead(queue: string): DeadJob[] {
    return this.#fake.state.dead(queue).map(deadJobOf);
  }

  /** Waits until what it has seen fulfils `isSo`, and gives that. Throws when it is not so after 20 s. */
  async until(what: string, isSo: (seen: Seen) => boolean): Promise<Seen> {
    const { changed } = this.#fake;
    let over = false;
    const timer = setTimeout(() => {
      over = true;
      changed.ring();
    }, PATIENCE_MS);
    try {
      for (;;) {
        const rung = changed.wait();
        if (isSo(this.seen)) return this.seen;
        if (over) throw new Error(`waited in vain: ${what}; seen: ${inspect(this.seen)}`);
        await rung;
      }
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends every session: with this status, or with OK. Its leases live on until their deadline. */
  endSessions(status?: FakeStatus): void {
    this.#fake.change((state) => {
      for (const session of state.sessions.values()) {
        session.outbound.end(status && statusError(status));
        state.startGrace(session.id);
      }
      state.sessions.clear();
      state.seen.sessions = 0;
    });
  }

  /** Breaks every connection. */
  breakConnections(): void {
    for (const session of this.#connections) session.destroy();
  }

  /** Takes the lease of a key away. Its session is told, unless `tell` is false. */
  loseLease(
    queue: string,
    key: string,
    { reason = "EXPIRED", tell = true }: { reason?: Exclude<LostReason, "UNKNOWN">; tell?: boolean } = {},
  ): void {
    this.#fake.change((state) => state.loseLease(queue, key, WireLostReason[reason], tell));
  }

  /** Says GoAway to every session. It does not end them. */
  goAway(
    reason: Exclude<keyof typeof GoAwayReason, "UNSPECIFIED">,
    { reconnectDelayMs = 0 }: { reconnectDelayMs?: number } = {},
  ): void {
    const value = {
      reason: GoAwayReason[reason],
      grace: durationOf(10_000, "grace"),
      reconnectDelay: durationOf(reconnectDelayMs, "reconnectDelayMs"),
    };
    this.#fake.change((state) => {
      for (const id of state.sessions.keys()) state.send(id, { case: "goAway", value });
    });
  }

  /** Stops it, with every connection. */
  async stop(): Promise<void> {
    clearInterval(this.#ticks);
    this.breakConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
