/** Checks of the options that something is made with: what is wrong there is thrown where it is made. */
import { shown } from "./fields.js";

/** The longest time that Node's timers can wait, in milliseconds. */
export const LONGEST_TIMER_MS = 0x7fff_ffff;

/** A whole number between two limits. */
export function whole(option: string, value: number, least: number, most: number): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw new RangeError(`${option} must be a whole number from ${least} to ${most}, not ${shown(value)}`);
}

/** A time that is not negative. */
export function graceMs(option: string, value: number): number {
  if (typeof value === "number" && value >= 0) return value;
  throw new RangeError(`${option} must be a number of milliseconds from 0 on, not ${shown(value)}`);
}

/** A time that is positive, and that a timer can wait for. */
export function limitMs(option: string, value: number): number {
  if (typeof value === "number" && value > 0 && value <= LONGEST_TIMER_MS) return value;
  const range = `a number of milliseconds more than 0 and at most ${LONGEST_TIMER_MS}`;
  throw new RangeError(`${option} must be ${range}, not ${shown(value)}`);
}

/** A list of what `isOne` accepts. */
export function list<T>(
  option: string,
  value: readonly T[],
  what: string,
  isOne: (item: T) => boolean,
): readonly T[] {
  if (!Array.isArray(value))
    throw new TypeError(`${option} must be an array of ${what}, not ${shown(value)}`);
  const wrong = value.findIndex((item) => !isOne(item));
  if (wrong === -1) return value;
  throw new TypeError(`${option}[${wrong}] must be one of ${what}, not ${shown(value[wrong])}`);
}

/** A function. */
export function callable<T>(option: string, value: T): T {
  if (typeof value === "function") return value;
  throw new TypeError(`${option} must be a function, not ${shown(value)}`);
}

export function isFunction(value: unknown): boolean {
  return typeof value === "function";
}
