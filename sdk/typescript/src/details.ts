/**
 * The details of a status: google.rpc.ErrorInfo, BadRequest and RetryInfo, read and written.
 *
 * They are three small messages of a file that no npm package carries in a form that fits here.
 */
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";

/** One field at fault. */
export interface FieldViolation {
  /** The field's path in the request, such as `items[3].key`. */
  readonly field: string;
  /** What is wrong with it, naming the limit. */
  readonly description: string;
}

/** What a status says besides its code and message. */
export interface Details {
  reason: string;
  violations: FieldViolation[];
  retryAfterMs: number | undefined;
}

/** A detail as it is on the wire. */
export interface PackedDetail {
  type: string;
  value: Uint8Array;
}

const ERROR_INFO = "google.rpc.ErrorInfo";
const BAD_REQUEST = "google.rpc.BadRequest";
const RETRY_INFO = "google.rpc.RetryInfo";
const DOMAIN = "keywork.dev";

/** Reads the details that are known here; what cannot be read counts as not there. */
export function readDetails(packed: readonly PackedDetail[]): Details {
  const details: Details = { reason: "", violations: [], retryAfterMs: undefined };
  for (const detail of packed) {
    try {
      readOne(detail, details);
    } catch {
      // A malformed detail hides neither the others nor the status itself.
    }
  }
  return details;
}

function readOne({ type, value }: PackedDetail, into: Details): void {
  switch (type) {
    case ERROR_INFO:
      into.reason = text(value, 1);
      break;
    case BAD_REQUEST:
      for (const violation of fields(value)) {
        if (violation.no === 1) into.violations.push(violationOf(violation.bytes));
      }
      break;
    case RETRY_INFO:
      for (const delay of fields(value)) {
        if (delay.no === 1) into.retryAfterMs = durationOf(delay.bytes);
      }
      break;
  }
}

function violationOf(bytes: Uint8Array): FieldViolation {
  return { field: text(bytes, 1), description: text(bytes, 2) };
}

function text(bytes: Uint8Array, no: number): string {
  const found = fields(bytes).find((field) => field.no === no);
  return found === undefined ? "" : new TextDecoder().decode(found.bytes);
}

function durationOf(bytes: Uint8Array): number {
  const reader = new BinaryReader(bytes);
  let ms = 0;
  while (reader.pos < reader.len) {
    const [no, wireType] = reader.tag();
    if (no === 1) ms += Number(reader.int64()) * 1_000;
    else if (no === 2) ms += reader.int32() / 1_000_000;
    else reader.skip(wireType, no);
  }
  return Math.max(0, ms);
}

/** The length-delimited fields of a message. */
function fields(message: Uint8Array): { no: number; bytes: Uint8Array }[] {
  const reader = new BinaryReader(message);
  const found: { no: number; bytes: Uint8Array }[] = [];
  while (reader.pos < reader.len) {
    const [no, wireType] = reader.tag();
    if (wireType === WireType.LengthDelimited) found.push({ no, bytes: reader.bytes() });
    else reader.skip(wireType, no);
  }
  return found;
}

/** Writes details, as servers do. For the fake server. */
export function packDetails(details: Partial<Details>): PackedDetail[] {
  const packed: PackedDetail[] = [];
  if (details.reason) {
    const info = new BinaryWriter().tag(1, WireType.LengthDelimited).string(details.reason);
    packed.push({ type: ERROR_INFO, value: info.tag(2, WireType.LengthDelimited).string(DOMAIN).finish() });
  }
  if (details.violations?.length) {
    packed.push({ type: BAD_REQUEST, value: badRequest(details.violations) });
  }
  if (details.retryAfterMs !== undefined) {
    packed.push({ type: RETRY_INFO, value: retryInfo(details.retryAfterMs) });
  }
  return packed;
}

function badRequest(violations: readonly FieldViolation[]): Uint8Array {
  const writer = new BinaryWriter();
  for (const { field, description } of violations) {
    const violation = writer.tag(1, WireType.LengthDelimited).fork();
    violation.tag(1, WireType.LengthDelimited).string(field);
    violation.tag(2, WireType.LengthDelimited).string(description);
    violation.join();
  }
  return writer.finish();
}

function retryInfo(ms: number): Uint8Array {
  const writer = new BinaryWriter().tag(1, WireType.LengthDelimited).fork();
  writer.tag(1, WireType.Varint).int64(BigInt(Math.floor(ms / 1_000)));
  writer.tag(2, WireType.Varint).int32(Math.round((ms % 1_000) * 1_000_000));
  return writer.join().finish();
}
