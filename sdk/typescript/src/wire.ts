/** Times and durations, to and from the wire. Here a duration is a number of milliseconds. */
import { create } from "@bufbuild/protobuf";
import {
  type Duration,
  DurationSchema,
  type Timestamp,
  timestampDate,
  timestampFromDate,
} from "@bufbuild/protobuf/wkt";
import { localError } from "./errors.js";

/** A duration of the wire; a negative one, which no server sends, counts as zero. */
export function msOf(duration: Duration | undefined): number {
  if (duration === undefined) return 0;
  return Math.max(0, Number(duration.seconds) * 1_000 + duration.nanos / 1_000_000);
}

/** A duration of the wire, where there is a positive one. */
export function positiveMs(duration: Duration | undefined): number | undefined {
  return msOf(duration) || undefined;
}

/** A duration for the wire. `name` is told where it is none. */
export function durationOf(ms: number, name: string): Duration {
  if (!Number.isFinite(ms) || ms < 0) {
    throw localError("INVALID_ARGUMENT", `${name} must be a number of milliseconds, not ${ms}`);
  }
  const seconds = Math.floor(ms / 1_000);
  const nanos = Math.round((ms - seconds * 1_000) * 1_000_000);
  return create(DurationSchema, { seconds: BigInt(seconds), nanos: Math.min(nanos, 999_999_999) });
}

/** A time for the wire. */
export function timestampOf(date: Date, name: string): Timestamp {
  if (Number.isNaN(date.getTime())) throw localError("INVALID_ARGUMENT", `${name} is no valid Date`);
  return timestampFromDate(date);
}

/** A time of the wire, where there is one. */
export function dateOf(timestamp: Timestamp | undefined): Date | undefined {
  return timestamp && timestampDate(timestamp);
}

/** A number for an unsigned 32-bit field. */
export function uint32(value: number, name: string): number {
  if (!Number.isInteger(value) || value < 0 || value > 0xffff_ffff) {
    throw localError("INVALID_ARGUMENT", `${name} must be a whole number from 0 to 4294967295, not ${value}`);
  }
  return value;
}
