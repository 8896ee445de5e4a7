/**
 * What can go wrong, in one class that answers two questions: may I try again, and can anything have happened?
 *
 * This module reads statuses of the wire; it never decides what to do about them.
 */
import { Code, ConnectError } from "@connectrpc/connect";
import { type FieldViolation, type PackedDetail, readDetails } from "./details.js";
import type { ItemError } from "./generated/keywork/v1/work_queue_pb.js";
import { msOf } from "./wire.js";

export type { FieldViolation } from "./details.js";

/**
 * The stable names of what went wrong, as {@link KeyworkError.reason} gives them.
 *
 * A server may know more than these: treat one that is not here by its code.
 */
export const reasons = {
  /** A field of the request is malformed or breaks a limit; see {@link KeyworkError.violations}. */
  INVALID_FIELD: "INVALID_FIELD",
  /** There is no queue of that name. */
  QUEUE_NOT_FOUND: "QUEUE_NOT_FOUND",
  /** The key has no outstanding job. */
  JOB_NOT_FOUND: "JOB_NOT_FOUND",
  /** There is no such dead letter. */
  DEAD_JOB_NOT_FOUND: "DEAD_JOB_NOT_FOUND",
  /** The key has an outstanding job, and the submit asked for an error in that case. */
  KEY_BUSY: "KEY_BUSY",
  /** There is a queue of that name with another configuration. */
  QUEUE_EXISTS: "QUEUE_EXISTS",
  /** The queue still holds jobs or dead letters. */
  QUEUE_NOT_EMPTY: "QUEUE_NOT_EMPTY",
  /** The queue's stream or consumer was changed in NATS so that a promise would break. */
  QUEUE_DRIFTED: "QUEUE_DRIFTED",
  /** The queue is at its limit of outstanding jobs. */
  QUEUE_FULL: "QUEUE_FULL",
  /** NATS has no room. */
  STORAGE_FULL: "STORAGE_FULL",
  /** NATS is away; nothing was sent to it. */
  NATS_UNAVAILABLE: "NATS_UNAVAILABLE",
  /** NATS did not answer; what was sent to it may have been stored. */
  NATS_NO_ANSWER: "NATS_NO_ANSWER",
  /** NATS refused for a reason that the server does not know. */
  NATS_REFUSED: "NATS_REFUSED",
  /** The server is stopping. */
  SERVER_DRAINING: "SERVER_DRAINING",
  /** The contract has it, the server does not yet. */
  NOT_SERVED_YET: "NOT_SERVED_YET",
  /** The stream did not begin with Hello. */
  HELLO_MISSING: "HELLO_MISSING",
  /** No Hello came in time, or the stream broke before it. */
  HELLO_LATE: "HELLO_LATE",
  /** The worker was silent for the liveness timeout. */
  SESSION_SILENT: "SESSION_SILENT",
  /** The worker did not read what it was sent. */
  SESSION_NOT_READING: "SESSION_NOT_READING",
  /** A newer session has the worker's id. */
  SESSION_SUPERSEDED: "SESSION_SUPERSEDED",
  /** The session was asked to reconnect, and its grace is over. */
  SESSION_SENT_AWAY: "SESSION_SENT_AWAY",
} as const;

/** The name of what went wrong: one of {@link reasons}, or of a server that knows more than these. */
export type Reason = keyof typeof reasons | (string & Record<never, never>);

/** The gRPC codes, by their names. */
export type ErrorCode =
  | "CANCELLED"
  | "UNKNOWN"
  | "INVALID_ARGUMENT"
  | "DEADLINE_EXCEEDED"
  | "NOT_FOUND"
  | "ALREADY_EXISTS"
  | "PERMISSION_DENIED"
  | "RESOURCE_EXHAUSTED"
  | "FAILED_PRECONDITION"
  | "ABORTED"
  | "OUT_OF_RANGE"
  | "UNIMPLEMENTED"
  | "INTERNAL"
  | "UNAVAILABLE"
  | "DATA_LOSS"
  | "UNAUTHENTICATED";

const NAMES: readonly ErrorCode[] = [
  "UNKNOWN",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
];

/** Codes with which a server turns a request away before it acts on it. */
const REFUSALS: readonly ErrorCode[] = [
  "INVALID_ARGUMENT",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "UNAUTHENTICATED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
];

/** What Node says where no connection was made at all, or none over which anything would be sent. */
const NEVER_CONNECTED = [
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EADDRNOTAVAIL",
  "ERR_SSL_WRONG_VERSION_NUMBER",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "CERT_HAS_EXPIRED",
];

/** Words of the transport from which nobody would guess what is usually wrong, and that. */
const PLAINER: readonly [RegExp, string][] = [
  [/wrong version number/, "it does not speak TLS; is http:// meant?"],
  [/^Protocol error$/, "it does not speak HTTP/2, so it is no Keywork server (Protocol error)"],
  [/^unsupported content type/, "it does not speak gRPC, so it is no Keywork server"],
];

/** What an error is made of. Plain data, so that it can cross threads. */
export interface ErrorParts {
  code: ErrorCode;
  message: string;
  reason: string;
  violations: readonly FieldViolation[];
  retryAfterMs: number | undefined;
  nothingHappened: boolean;
  /** The connection broke under the call, or there was none: no server has judged the request. */
  broken: boolean;
}

/**
 * A call that failed: a refusal, a server that could not, or a connection that broke.
 *
 * That a key is busy is no error: see {@link SubmitResult}.
 */
export class KeyworkError extends Error {
  override readonly name = "KeyworkError";
  /** The gRPC code, by its name. A connection that broke is `UNAVAILABLE`, whatever Node calls it. */
  readonly code: ErrorCode;
  /** The stable name of what went wrong: one of {@link reasons}, or empty where none was given. */
  readonly reason: Reason;
  /** The fields at fault, where the request was refused for them. */
  readonly violations: readonly FieldViolation[];
  /** When the server thinks that trying again can help, in milliseconds. */
  readonly retryAfterMs: number | undefined;
  readonly #parts: ErrorParts;

  /** @internal */
  constructor(parts: ErrorParts, options?: ErrorOptions) {
    super(describe(parts), options);
    this.code = parts.code;
    this.reason = parts.reason;
    this.violations = parts.violations;
    this.retryAfterMs = parts.retryAfterMs;
    this.#parts = parts;
  }

  /** True: the same call may succeed later. Repeat a submit with the same `requestId`. */
  isRetryable(): boolean {
    return (
      this.isOutage() ||
      this.retryAfterMs !== undefined ||
      (this.reason !== reasons.SESSION_SUPERSEDED &&
        ["RESOURCE_EXHAUSTED", "ABORTED", "DEADLINE_EXCEEDED"].includes(this.code))
    );
  }

  /** True: nothing was stored or changed by the call. False: something may have been. */
  hasNoSideEffects(): boolean {
    return this.#parts.nothingHappened;
  }

  /** The server or the way to it is away: what this package retries by itself. @internal */
  isOutage(): boolean {
    return this.#parts.broken || this.code === "UNAVAILABLE";
  }

  /** The same error, where an earlier try of the same call may have had an effect. @internal */
  withDoubt(doubt: boolean): KeyworkError {
    if (!doubt || !this.#parts.nothingHappened) return this;
    return new KeyworkError({ ...this.#parts, nothingHappened: false }, { cause: this.cause });
  }

  /** The same error, for a call of which nothing was sent. @internal */
  get unsent(): KeyworkError {
    return new KeyworkError({ ...this.#parts, nothingHappened: true }, { cause: this.cause });
  }

  /** Plain data that crosses threads. @internal */
  get parts(): ErrorParts {
    return this.#parts;
  }
}

function describe({ message, code, reason, violations }: ErrorParts): string {
  const missing = violations.filter((violation) => !message.includes(violation.description));
  const fields = missing.map((violation) => `; ${violation.field}: ${violation.description}`);
  return `${message || code}${reason && ` [${reason}]`}${fields.join("")}`;
}

/** An error that this side found before anything was sent. */
export function localError(code: ErrorCode, message: string): KeyworkError {
  const parts = { code, message, reason: "", violations: [], retryAfterMs: undefined };
  return new KeyworkError({ ...parts, nothingHappened: true, broken: false });
}

/**
 * A field of a call that this side found at fault before anything was sent, told as a server does. `name` is what the
 * program calls it, such as `backoff.initialMs`; the violation has the contract's name for it.
 */
export function invalidField(name: string, description: string): KeyworkError {
  return new KeyworkError({
    ...localError("INVALID_ARGUMENT", `${name}: ${description}`).parts,
    reason: reasons.INVALID_FIELD,
    violations: [{ field: contractName(name), description }],
  });
}

function contractName(name: string): string {
  return name.replace(/Ms$/, "").replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** A call that got no answer in time, or whose stream ended before it. */
export function unanswered(message: string, code: ErrorCode = "DEADLINE_EXCEEDED"): KeyworkError {
  return new KeyworkError({ ...localError(code, message).parts, nothingHappened: false, broken: true });
}

/** The error of one item of a batch. */
export function itemError(item: ItemError): KeyworkError {
  const { field } = item;
  // The message says it as that of a status does: with the field before it.
  const description = item.message.startsWith(`${field}: `)
    ? item.message.slice(field.length + 2)
    : item.message;
  const violations = field ? [{ field, description }] : [];
  return new KeyworkError({
    code: codeName(item.code),
    message: item.message,
    reason: item.reason,
    violations,
    retryAfterMs: item.retryAfter && msOf(item.retryAfter),
    nothingHappened: !item.sideEffectsUnknown,
    broken: false,
  });
}

/** What was to be sent could not be written as the contract has it: nothing was sent, and no other try helps. */
function unwritable(status: ConnectError): KeyworkError | undefined {
  const said = /^serialize binary: (.*)$/s.exec(status.rawMessage)?.[1];
  if (said === undefined) return undefined;
  const [, field = "request", why = said] =
    /^cannot encode field [\w.]+\.(\w+) to binary: (.*)$/s.exec(said) ?? [];
  return invalidField(field, `cannot be sent: ${why}`);
}

/** Reads whatever a call threw. What is told about a connection names the server, if that is given. */
export function errorFrom(thrown: unknown, server?: string): KeyworkError {
  if (thrown instanceof KeyworkError) return thrown;
  const status = ConnectError.from(thrown, Code.Internal);
  const wrong = unwritable(status);
  if (wrong !== undefined) return wrong;
  const details = readDetails(status.details.filter((detail): detail is PackedDetail => "type" in detail));
  const broken = isBroken(status);
  const code = broken && status.code !== Code.DeadlineExceeded ? "UNAVAILABLE" : codeName(status.code);
  const parts = {
    ...details,
    code,
    message: broken && server !== undefined ? lostMessage(status, server) : status.rawMessage,
    nothingHappened: nothingHappened(status, code, broken),
    broken,
  };
  return new KeyworkError(parts, { cause: status.cause ?? status });
}

/** The number of a code. For the fake server. */
export function codeNumber(code: ErrorCode): Code {
  return NAMES.lastIndexOf(code) || Code.Unknown;
}

function lostMessage(status: ConnectError, server: string): string {
  if (status.code === Code.DeadlineExceeded) return `${server} did not answer in time`;
  const what = neverConnected(status) ? "cannot be reached" : "broke the connection";
  const said = status.rawMessage.trim() || String(status.cause ?? "no reason given");
  const [, why = said] = PLAINER.find(([words]) => words.test(said)) ?? [];
  return `${server} ${what}: ${why}`;
}

function codeName(code: number): ErrorCode {
  return NAMES[code] ?? "UNKNOWN";
}

/**
 * The status was made on this side. A status of a server, or of a proxy, comes with headers; for a killed server
 * the transport makes up CANCELED, ABORTED or INTERNAL, so the code alone does not tell.
 */
function isBroken(status: ConnectError): boolean {
  const fromAfar = [...status.metadata.keys()].length > 0;
  return !fromAfar && status.code !== Code.ResourceExhausted && status.code !== Code.InvalidArgument;
}

/** The server's word where it gave one; otherwise what the code implies. */
function nothingHappened(status: ConnectError, code: ErrorCode, broken: boolean): boolean {
  const said = status.metadata.get("side_effects");
  if (said !== null) return said === "none";
  return broken ? neverConnected(status) : REFUSALS.includes(code);
}

function neverConnected(status: ConnectError): boolean {
  const seen = new Set<unknown>();
  let error: unknown = status;
  while (error instanceof Error && !seen.has(error)) {
    seen.add(error);
    if (isNeverConnected(error)) return true;
    error = error.cause;
  }
  return false;
}

function isNeverConnected(error: Error): boolean {
  // Node tries all addresses of a name, and then gathers their errors.
  if (error instanceof AggregateError) {
    return (
      error.errors.length > 0 && error.errors.every((one) => one instanceof Error && isNeverConnected(one))
    );
  }
  return "code" in error && typeof error.code === "string" && NEVER_CONNECTED.includes(error.code);
}
