/** How a handler's run can end, and what that means for its job. */

import { inspect } from "node:util";
import { bytesOf } from "../fields.js";
import { graceMs } from "../options.js";
import type { CancelReason } from "./shared.js";

/** Longest error text that is sent; servers keep no more. */
const ERROR_BYTES = 2_048;

/** Try again after a delay of the handler's choice. Return it or throw it. */
export class Retry extends Error {
  override readonly name = "Retry";
  /** `undefined`: the job's backoff. */
  readonly delayMs: number | undefined;

  /** @param because What went wrong. */
  constructor({ delayMs, because = "" }: { readonly delayMs?: number; readonly because?: string } = {}) {
    super(because);
    this.delayMs = delayMs === undefined ? undefined : graceMs("delayMs", delayMs);
  }
}

/** Make the job a dead letter now: trying again would not help, for this reason. Return it or throw it. */
export class Fail extends Error {
  override readonly name = "Fail";
}

/** Give the job back at once; costs no attempt. Return it or throw it. */
export class Release extends Error {
  override readonly name = "Release";
}

/** The job is done, and its key is to run again. Return it or throw it. */
export class Rerun extends Error {
  override readonly name = "Rerun";
  readonly delayMs: number;
  /** `undefined`: the same payload. */
  readonly payload: Uint8Array | undefined;

  constructor({
    delayMs = 0,
    payload,
  }: { readonly delayMs?: number; readonly payload?: Uint8Array | string } = {}) {
    super();
    this.delayMs = graceMs("delayMs", delayMs);
    this.payload = payload === undefined ? undefined : bytesOf(payload);
  }
}

/** What a handler returns: nothing completes the job. */
// biome-ignore lint/suspicious/noConfusingVoidType: a handler without a return statement returns void.
export type HandlerResult = void | undefined | Retry | Fail | Release | Rerun;

/** How a handler's run ended. Plain data: it crosses threads. */
export type Outcome =
  /** The job is done. */
  | { readonly as: "complete" }
  /**
   * The attempt failed; the next comes after the delay, or after the job's backoff. `chosen` says that the handler
   * asked for it by a {@link Retry}; false: it threw an ordinary error.
   */
  | { readonly as: "retry"; readonly delayMs?: number; readonly error: string; readonly chosen: boolean }
  /** The job becomes a dead letter. */
  | { readonly as: "fail"; readonly reason: string }
  /** The job goes back to the queue. */
  | { readonly as: "release" }
  /** The job is done and its key runs again. */
  | { readonly as: "rerun"; readonly delayMs: number; readonly payload?: Uint8Array };

/** How one run of a handler ended. */
export interface HandlerRun {
  /** What becomes of the job, unless its lease was lost before. */
  readonly outcome: Outcome;
  /** What the handler threw, where it was an ordinary error for which the job is tried again. */
  readonly error?: unknown;
}

/** What a handler's return means. */
export function runOfReturn(returned: unknown): HandlerRun {
  return { outcome: chosenOutcome(returned) ?? { as: "complete" } };
}

/** What it means that a handler threw. `reason`: it was told to stop before. */
export function runOfThrow(thrown: unknown, reason: CancelReason | undefined): HandlerRun {
  const chosen = chosenOutcome(thrown);
  if (chosen !== undefined) return { outcome: chosen };
  // That it ended so because it was told to is no failure of the job.
  if (reason === "WORKER_SHUTDOWN") return { outcome: { as: "release" } };
  return { outcome: retry(textOfThrown(thrown)), error: thrown };
}

/** Tried again after the job's backoff. */
export function retry(error: string): Outcome {
  return { as: "retry", error: cut(error), chosen: false };
}

function chosenOutcome(value: unknown): Outcome | undefined {
  if (value instanceof Retry) {
    const delay = value.delayMs === undefined ? {} : { delayMs: value.delayMs };
    return { as: "retry", ...delay, error: cut(value.message), chosen: true };
  }
  if (value instanceof Fail) return { as: "fail", reason: cut(value.message) };
  if (value instanceof Release) return { as: "release" };
  if (value instanceof Rerun) {
    return { as: "rerun", delayMs: value.delayMs, ...(value.payload && { payload: value.payload }) };
  }
  return undefined;
}

/** The text of what was thrown, with its causes. Whatever it is: a handler may throw anything. */
export function textOfThrown(thrown: unknown): string {
  const texts: string[] = [];
  const seen = new Set<unknown>();
  for (let error = thrown; error !== undefined && !seen.has(error); ) {
    seen.add(error);
    texts.push(ownText(error));
    error = error instanceof Error ? error.cause : undefined;
  }
  return texts.join(": ") || "no text";
}

function ownText(thrown: unknown): string {
  try {
    if (!(thrown instanceof Error)) return typeof thrown === "string" ? thrown : inspect(thrown);
    const { name, message } = thrown;
    if (message) return !name || name === "Error" ? String(message) : `${name}: ${message}`;
    // Such as that of a connection that failed with every address of a name.
    const errors: readonly unknown[] = thrown instanceof AggregateError ? thrown.errors : [];
    return errors.slice(0, 10).map(ownText).join("; ") || thrown.name;
  } catch {
    return "something that cannot be shown was thrown";
  }
}

/** Cuts a text to what servers keep, between two characters. */
function cut(text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= ERROR_BYTES) return text;
  let end = ERROR_BYTES;
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.toString("utf8", 0, end);
}
