/** Times and durations, to and from the wire. Here a duration is a number of milliseconds. */
import { types } from "node:util";
import { create } from "@bufbuild/protobuf";
import {
  type Duration,
  DurationSchema,
  type Timestamp,
  timestampDate,
  timestampFromDate,
} from "@bufbuild/protobuf/wkt";
import { invalidField } from "./errors.js";
import { shown } from "./fields.js";

/** The longest duration that the wire has. */
const LONGEST_MS = 315_576_000_000_000;

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
  if (typeof ms !== "number" || !(ms >= 0 && ms <= LONGEST_MS)) {
    throw invalidField(name, `must be a number of milliseconds from 0 on, not ${shown(ms)}`);
  }
  const seconds = Math.floor(ms / 1_000);
  const nanos = Math.round((ms - seconds * 1_000) * 1_000_000);
  return create(DurationSchema, { seconds: BigInt(seconds), nanos: Math.min(nanos, 999_999_999) });
}

/** A time for the wire. */
export function timestampOf(date: Date, name: string): Timestamp {
  if (!types.isDate(date)) throw invalidField(name, `must be a Date, not ${shown(date)}`);
  if (Number.isNaN(date.getTime())) throw invalidField(name, "must be a valid Date");
  return timestampFromDate(date);
}

/** A time of the wire, where there is one. */
export function dateOf(timestamp: Timestamp | undefined): Date | undefined {
  return timestamp && timestampDate(timestamp);
}
