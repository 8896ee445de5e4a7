/** Offering one job: what can be said of it, and the retry that keeps to one `request_id`. */
import { randomUUID } from "node:crypto";
import { toUSVString } from "node:util";
import { create } from "@bufbuild/protobuf";
import { errorFrom, invalidField } from "../errors.js";
import { bytesOf, kindOf, shown, textOf, uint32 } from "../fields.js";
import {
  type SubmitRequest,
  SubmitRequestSchema,
  OnConflict as WireOnConflict,
} from "../generated/keywork/v1/work_queue_pb.js";
import { type SubmitResult, submitResult } from "../job.js";
import type { Tracing } from "../tracing.js";
import { durationOf, timestampOf } from "../wire.js";
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

const CONFLICTS: Readonly<Record<OnConflict, WireOnConflict>> = {
  REJECT: WireOnConflict.REJECT,
  RERUN: WireOnConflict.RERUN,
  REPLACE: WireOnConflict.REPLACE,
  FAIL: WireOnConflict.FAIL,
};

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

/** The attribute that says that a submit has its trace context already. */
const TRACEPARENT = "traceparent";

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
  // One who gives the context of a submit knows better which it is.
  if (tracing !== undefined && !Object.hasOwn(request.attributes, TRACEPARENT)) {
    request.attributes = { ...tracing.inject(), ...request.attributes };
  }
  return { request, ownId };
}

/** A submit as the wire has it. */
export function submitRequest(submit: Submit): SubmitRequest {
  if (submit.delayMs !== undefined && submit.startAt !== undefined) {
    throw invalidField("startAt", "must not be given together with delayMs");
  }
  const request = create(SubmitRequestSchema, {
    queue: textOf(submit.queue, "queue"),
    key: keyOf(submit.key),
    payload: bytesOf(submit.payload),
    contentType: textOf(submit.contentType ?? "", "contentType"),
    attributes: attributesOf(submit.attributes ?? {}),
    requestId: textOf(submit.requestId ?? "", "requestId"),
    onConflict: conflictOf(submit.onConflict),
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

function keyOf(key: string): string {
  // What is no Unicode would be sent as replacement characters, and share its key with others.
  if (toUSVString(textOf(key, "key")) !== key) throw invalidField("key", "must be well-formed Unicode");
  return key;
}

function attributesOf(attributes: Readonly<Record<string, string>>): Record<string, string> {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "string") continue;
    throw invalidField("attributes", `must have strings as values; that of ${name} is ${kindOf(value)}`);
  }
  return { ...attributes };
}

function conflictOf(onConflict: OnConflict | undefined): WireOnConflict {
  if (onConflict === undefined) return WireOnConflict.UNSPECIFIED;
  if (Object.hasOwn(CONFLICTS, onConflict)) return CONFLICTS[onConflict];
  const known = Object.keys(CONFLICTS).join(", ");
  throw invalidField("onConflict", `must be one of ${known}, not ${shown(onConflict)}`);
}

export function backoffOf({ initialMs, maxMs }: BackoffRange, name = "backoff") {
  return {
    $typeName: "keywork.v1.Backoff" as const,
    initial: durationOf(initialMs, `${name}.initialMs`),
    max: durationOf(maxMs, `${name}.maxMs`),
  };
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
  const patience = new Patience(core, signal);
  for (;;) {
    const place = core.channels.place();
    try {
      return await call(Math.min(core.options.callTimeoutMs, patience.leftMs()));
    } catch (thrown) {
      signal?.throwIfAborted();
      await patience.after(errorFrom(thrown), place);
    }
  }
}
