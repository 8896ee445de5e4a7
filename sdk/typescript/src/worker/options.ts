/** A worker's options. */
import type { Client } from "../client/client.js";
import type { Logger } from "../logger.js";
import type { Tracing } from "../tracing.js";
import type { WorkerEvent } from "./events.js";
import type { Handler, Interceptor } from "./handler.js";

/** A queue that a worker serves, and its share of the worker against its other queues. */
export interface Subscription {
  readonly queue: string;
  /** Its share: 1 to 100. Default: 1. */
  readonly weight?: number;
}

/** The options of a {@link Worker}. */
export interface WorkerOptions {
  /** Knows the servers. The worker has a connection of its own. */
  readonly client: Client;
  /** The queues to serve: 1 to 64, none of them twice. */
  readonly queues: readonly (string | Subscription)[];
  /** Runs the jobs. */
  readonly handler: Handler;
  /**
   * How many handlers run at once, which is how many leases the worker holds: 1 to 100,000. Default: 16.
   */
  readonly concurrency?: number;
  /**
   * How long running handlers may take to end after the worker was told to stop, before they are cancelled. Default:
   * 25,000.
   */
  readonly shutdownGraceMs?: number;
  /**
   * How long a handler may take to end after it was cancelled because the worker stops. Two seconds later it is left
   * behind, and its lease runs out by itself. Default: 1,000.
   */
  readonly cancelGraceMs?: number;
  /**
   * Names this process at the servers. A newer worker of the same name takes over from an older one, so no two that
   * run at once may share it: 1 to 256 bytes. Default: one of the host, the process and chance.
   */
  readonly workerId?: string;
  /** Wrap every handler call; the first one is the outermost. */
  readonly interceptors?: readonly Interceptor[];
  /** Told of everything that happens. What it throws ends nothing, and is logged once. */
  readonly onEvent?: (event: WorkerEvent) => void;
  /**
   * Where it logs to: `console`, or another logger. Default: the client's, which writes warnings to `console.warn` where
   * it has none. What a logger throws is dropped.
   */
  readonly logger?: Logger;
  /** Carries trace context from submits to handlers. Default: the client's. */
  readonly tracing?: Tracing;
  /**
   * Where the lease thread's code is, for bundled programs. Default: beside this package's code, or beside the bundle,
   * as `lease-thread.js`.
   */
  readonly leaseThread?: URL | string;
}
