/** Offering one job: what can be said of it, and the retry that keeps to one `request_id`. */
import { randomUUID } from "node:crypto";
import { types } from "node:util";
import { create } from "@bufbuild/protobuf";
import { errorFrom, localError } from "../errors.js";
import {
  type SubmitRequest,
  SubmitRequestSchema,
  OnConflict as WireOnConflict,
} from "../generated/keywork/v1/work_queue_pb.js";
import { type SubmitResult, submitResult } from "../job.js";
import type { Tracing } from "../tracing.js";
import { durationOf, timestampOf, uint32 } from "../wire.js";
import type { CallOptions, Core } from "./core.js";
import { Patience } from "./patience.js";

/**
 * What to do when the key has an outstanding job already.
 *
 * - `REJECT`: answer `ALREADY_OUTSTANDING`.
 * - `RERUN`: run the key once more after the current job, with the newest payload.
 * - `REPLACE`: take the place of a job that has not started.
 * - `FAIL`: answer with an error of the code `ALREADY_EXISTS`.
 */
export type OnConflict = "REJECT" | "RERUN" | "REPLACE" | "FAIL";

/** A job to offer. */
export interface Submit {
  /** The queue. Made with defaults on first use, unless the server says otherwise. */
  readonly queue: string;
  /** What the job is about: any non-empty text of up to 512 bytes. */
  readonly key: string;
  /** What the handler gets: at most the queue's limit, 512 KiB by default. Text is sent as UTF-8. Default: empty. */
  readonly payload?: Uint8Array | string;
  /** Media type of the payload. Default: none. */
  readonly contentType?: string;
  /** Attributes: at most 64, 16 KiB in all. */
  readonly attributes?: Readonly<Record<string, string>>;
  /**
   * A UUID that names this submit; it becomes the job's id, and offering it again finds the same job. Default: the
   * client makes one, and keeps it over its own retries.
   */
  readonly requestId?: string;
  /** What to do when the key is busy. Default: `REJECT`. */
  readonly onConflict?: OnConflict;
  /** Start no sooner than this long from now; the key is taken at once. Not together with `startAt`. */
  readonly delayMs?: number;
  /** Start no sooner than at this time; the key is taken at once. */
  readonly startAt?: Date;
  /** Make it a dead letter when it has not started by then. Default: never. */
  readonly expiresAt?: Date;
  /** Attempts before it becomes a dead letter: 1 to 1,000. Default: the queue's. */
  readonly maxAttempts?: number;
  /** The first wait between attempts, and the longest. Default: the queue's. */
  readonly backoff?: BackoffRange;
}

/** The first wait between attempts, and the longest. */
export interface BackoffRange {
  readonly initialMs: number;
  readonly maxMs: number;
}

/** A request that is ready to be sent, as often as it takes. */
export interface Offer {
  /** With its `request_id`. */
  readonly request: SubmitRequest;
  /** This package made the id. */
  readonly ownId: boolean;
}

/** The request, with an id made where the caller gave none, and with trace context. */
export function offerOf(submit: Submit, tracing: Tracing | undefined): Offer {
  const request = submitRequest(submit);
  const ownId = request.requestId === "";
  if (ownId) request.requestId = randomUUID();
  if (tracing !== undefined) request.attributes = { ...request.attributes, ...tracing.inject() };
  return { request, ownId };
}

/** A submit as the wire has it. */
export function submitRequest(submit: Submit): SubmitRequest {
  if (submit.delayMs !== undefined && submit.startAt !== undefined) {
    throw localError("INVALID_ARGUMENT", "give delayMs or startAt, not both");
  }
  const request = create(SubmitRequestSchema, {
    queue: submit.queue,
    key: submit.key,
    payload: bytesOf(submit.payload),
    contentType: submit.contentType ?? "",
    attributes: { ...submit.attributes },
    requestId: submit.requestId ?? "",
    onConflict:
      submit.onConflict === undefined ? WireOnConflict.UNSPECIFIED : WireOnConflict[submit.onConflict],
    maxAttempts: uint32(submit.maxAttempts ?? 0, "maxAttempts"),
  });
  if (submit.delayMs !== undefined) {
    request.start = { case: "delay", value: durationOf(submit.delayMs, "delayMs") };
  }
  if (submit.startAt !== undefined) {
    request.start = { case: "startAt", value: timestampOf(submit.startAt, "startAt") };
  }
  if (submit.expiresAt !== undefined) request.expiresAt = timestampOf(submit.expiresAt, "expiresAt");
  if (submit.backoff !== undefined) request.backoff = backoffOf(submit.backoff);
  return request;
}

export function backoffOf({ initialMs, maxMs }: BackoffRange) {
  return {
    $typeName: "keywork.v1.Backoff" as const,
    initial: durationOf(initialMs, "backoff.initialMs"),
    max: durationOf(maxMs, "backoff.maxMs"),
  };
}

/** Bytes as the wire has them: text becomes UTF-8. */
export function bytesOf(payload: Uint8Array | string | undefined): Uint8Array {
  if (payload === undefined) return new Uint8Array();
  if (typeof payload === "string") return new TextEncoder().encode(payload);
  // Not every program has its types checked; an object would fail where it is sent, as if the server had.
  if (!types.isUint8Array(payload)) {
    throw localError("INVALID_ARGUMENT", "payload must be a text or a Uint8Array: JSON.stringify an object");
  }
  return payload;
}

/** Offers one job through the client's interceptors. */
export function submit(core: Core, offered: Submit, options: CallOptions): Promise<SubmitResult> {
  const last = (submit: Submit) => submitUntilAnswered(core, submit, options);
  const chain = core.options.interceptors.reduceRight<(submit: Submit) => Promise<SubmitResult>>(
    (next, interceptor) => async (submit) => interceptor(submit, next),
    last,
  );
  return chain(offered);
}

async function submitUntilAnswered(core: Core, submit: Submit, options: CallOptions): Promise<SubmitResult> {
  const offer = offerOf(submit, core.options.tracing);
  const response = await untilAnswered(core, options, (limitMs) =>
    core.call((clients, call) => clients.workQueue.submit(offer.request, call), options, limitMs),
  );
  return submitResult(response, offer.ownId);
}

/** Repeats a call that is safe to repeat, until the client's submit deadline. */
export async function untilAnswered<T>(
  core: Core,
  { signal }: CallOptions,
  call: (limitMs: number) => Promise<T>,
): Promise<T> {
  const patience = new Patience(core.options.submitDeadlineMs, signal);
  for (;;) {
    try {
      return await call(Math.min(core.options.callTimeoutMs, patience.leftMs()));
    } catch (thrown) {
      signal?.throwIfAborted();
      await patience.after(errorFrom(thrown));
    }
  }
}
