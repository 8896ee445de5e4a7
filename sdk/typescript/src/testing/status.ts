/** Refusals and outages as servers say them. */
import { ConnectError } from "@connectrpc/connect";
import { type FieldViolation, packDetails } from "../details.js";
import { codeNumber, type ErrorCode, reasons } from "../errors.js";

/** A status that a {@link FakeServer} is to answer with. */
export interface FakeStatus {
  readonly code: ErrorCode;
  /** The stable reason. Default: none, as if something on the way had answered. */
  readonly reason?: string;
  readonly message?: string;
  readonly violations?: readonly FieldViolation[];
  readonly retryAfterMs?: number;
  /** What the metadata says. Default: nothing. */
  readonly sideEffects?: "none" | "unknown";
}

/** The status as the transport takes it. */
export function statusError(status: FakeStatus): ConnectError {
  const metadata = status.sideEffects && { side_effects: status.sideEffects };
  const error = new ConnectError(status.message ?? status.code, codeNumber(status.code), metadata);
  const details = packDetails({
    reason: status.reason ?? "",
    violations: [...(status.violations ?? [])],
    retryAfterMs: status.retryAfterMs,
  });
  for (const detail of details) error.details.push(detail);
  return error;
}

/** A refusal that names a field. */
export function badField(field: string, description: string): FakeStatus {
  const violations = [{ field, description }];
  const message = `${field}: ${description}`;
  return { code: "INVALID_ARGUMENT", reason: reasons.INVALID_FIELD, message, violations };
}

/** NATS is away. */
export function outage(sideEffects: "none" | "unknown"): FakeStatus {
  const reason = sideEffects === "none" ? reasons.NATS_UNAVAILABLE : reasons.NATS_NO_ANSWER;
  return { code: "UNAVAILABLE", reason, message: "NATS is away", retryAfterMs: 10, sideEffects };
}

/** The contract has it, servers do not serve it yet. */
export function notServedYet(what: string): FakeStatus {
  return { code: "UNIMPLEMENTED", reason: reasons.NOT_SERVED_YET, message: `${what} is not served yet` };
}

/** Something is not there. */
export function notFound(reason: string, message: string): FakeStatus {
  return { code: "NOT_FOUND", reason, message };
}
