/** How servers are reached: lazily, one pooled channel each, all settings of HTTP/2 in one place. */
import type { ClientHttp2Session, ClientHttp2Stream, SecureClientSessionOptions } from "node:http2";
import type { Interceptor, Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import type { Servers } from "./options.js";
import { pems } from "./tls.js";

/** A stream's window: what a server may send ahead of our reading it. */
const STREAM_WINDOW = 4 << 20;
/** The connection's window. A small one, with many unread streams, stalls the connection. */
const CONNECTION_WINDOW = 16 << 20;
/** Largest message taken: a delivery of a thousand jobs with payloads is large. */
const MESSAGE_BYTES = 256 << 20;
const PING_EVERY_MS = 10_000;
const PING_TIMEOUT_MS = 5_000;
/** After so many outages in a row a channel is made anew. */
const OUTAGES = 3;

/** A connection to one server, with the transport over it. */
export interface Channel {
  readonly transport: Transport;
  /** Ends it, with everything that is under way on it. */
  close(): void;
}

/** Makes a channel; it connects when it is first used. */
export function openChannel(servers: Servers, endpoint: string): Channel {
  const session = new Session(
    endpoint,
    { pingIntervalMs: PING_EVERY_MS, pingTimeoutMs: PING_TIMEOUT_MS, pingIdleConnection: true },
    sessionOptions(servers),
  );
  const transport = createGrpcTransport({
    baseUrl: endpoint,
    sessionManager: session,
    interceptors: [withHeaders(servers.headers)],
    acceptCompression: [],
    readMaxBytes: MESSAGE_BYTES,
    writeMaxBytes: MESSAGE_BYTES,
  });
  return { transport, close: () => session.abort() };
}

function sessionOptions({ tls }: Servers): SecureClientSessionOptions {
  return {
    settings: { initialWindowSize: STREAM_WINDOW },
    ...pems(tls ?? {}),
    ...(tls?.servername !== undefined && { servername: tls.servername }),
  };
}

function withHeaders(headers: Readonly<Record<string, string>>): Interceptor {
  const entries = Object.entries(headers);
  return (next) => (request) => {
    for (const [name, value] of entries) request.header.set(name, value);
    return next(request);
  };
}

/** Sets up each HTTP/2 session, in ways that there is no option for, when its first stream is opened. */
class Session extends Http2SessionManager {
  #setUp: ClientHttp2Session | undefined;

  override async request(
    ...parameters: Parameters<Http2SessionManager["request"]>
  ): Promise<ClientHttp2Stream> {
    const stream = await super.request(...parameters);
    const session = stream.session as ClientHttp2Session | undefined;
    if (session !== undefined && session !== this.#setUp) {
      this.#setUp = session;
      setUp(session);
    }
    return stream;
  }
}

function setUp(session: ClientHttp2Session): void {
  session.setLocalWindowSize(CONNECTION_WINDOW);
  // The manager's timer may ask for a ping after the session was destroyed, and Node throws at that. Its listener for
  // errors is gone by then too, and an error that nobody listens to ends the process.
  const ping = session.ping.bind(session) as (...parameters: unknown[]) => boolean;
  session.ping = (...parameters: unknown[]) => !session.destroyed && ping(...parameters);
  session.on("error", () => undefined);
}

/** One lazily made channel for each server, and which of them is in use. */
export class Channels {
  readonly #servers: Servers;
  readonly #made: (Channel | undefined)[];
  /** For each server: its outages since it was heard last. */
  readonly #outages: number[];
  #place = 0;

  constructor(servers: Servers) {
    this.#servers = servers;
    this.#made = servers.endpoints.map(() => undefined);
    this.#outages = servers.endpoints.map(() => 0);
  }

  /** The channel in use. */
  current(): Channel {
    const number = this.#place % this.#made.length;
    const channel = this.#made[number] ?? openChannel(this.#servers, this.name(number));
    this.#made[number] = channel;
    return channel;
  }

  /** The server of a place, as people know it. */
  name(place: number): string {
    return this.#servers.endpoints[place % this.#made.length] as string;
  }

  /** The server in use. */
  place(): number {
    return this.#place;
  }

  /** A call to the server of that place was answered. */
  answered(place: number): void {
    this.#outages[place % this.#made.length] = 0;
  }

  /**
   * A call met an outage: turns to the next server, unless another call has turned away from this one already. After
   * repeated outages its channel is not used again; calls that are under way on it end by themselves.
   */
  turnAway(place: number): void {
    if (place !== this.#place) return;
    const number = place % this.#made.length;
    const outages = (this.#outages[number] ?? 0) + 1;
    this.#outages[number] = outages % OUTAGES;
    if (outages === OUTAGES) this.#made[number] = undefined;
    this.#place += 1;
  }

  /** Ends all channels. */
  close(): void {
    for (const channel of this.#made) channel?.close();
    this.#made.fill(undefined);
  }
}
