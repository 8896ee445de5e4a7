/** What a worker tells of itself while it runs. */
import type { LostReason } from "../client/leases.js";
import type { WorkerError } from "./errors.js";

/** Something that the lease thread tells: plain data. */
export type ThreadEvent =
  /** It is about to connect to this server. */
  | { readonly type: "connecting"; readonly endpoint: string }
  /** Its session is open: it is served. */
  | { readonly type: "ready" }
  /**
   * Its session with this server broke, or none could be opened; running handlers go on while their leases hold, and it
   * reconnects. `error` is for people.
   */
  | { readonly type: "degraded"; readonly endpoint: string; readonly error: string }
  /** It takes no more jobs and finishes what runs. */
  | { readonly type: "draining" }
  /**
   * A lease was lost before its job was settled; what the handler returns will be dropped. `reason` is `undefined`
   * where the worker itself could no longer be sure of it.
   */
  | {
      readonly type: "lease_lost";
      readonly queue: string;
      readonly key: string;
      readonly reason: LostReason | undefined;
    }
  /** A settlement was answered: it counts (now, or since an earlier try), or the lease was lost before. */
  | {
      readonly type: "settled";
      readonly queue: string;
      readonly key: string;
      readonly jobId: string;
      readonly fencingNumber: bigint;
      readonly outcome: "SETTLED" | "ALREADY_SETTLED" | "LEASE_LOST";
    }
  /** A handler still runs although it was cancelled this long ago. It keeps its slot. */
  | {
      readonly type: "handler_ignores_cancellation";
      readonly queue: string;
      readonly key: string;
      readonly cancelledForMs: number;
    }
  /** A settlement was refused; the job is tried again instead. `error` is for people. */
  | {
      readonly type: "settlement_rejected";
      readonly queue: string;
      readonly key: string;
      readonly error: string;
    };

/** Something that a worker's owner may want to log, count or alarm on. */
export type WorkerEvent =
  | ThreadEvent
  /** It ends with an error, as `run` throws it. */
  | { readonly type: "failed"; readonly error: WorkerError }
  /**
   * It has stopped. `abandoned`: handlers that were still running and were left behind. `unconfirmed`: results of
   * handlers that no server has confirmed; the jobs run again when their leases are over, unless the result came through
   * after all.
   */
  | { readonly type: "stopped"; readonly abandoned: number; readonly unconfirmed: number };
