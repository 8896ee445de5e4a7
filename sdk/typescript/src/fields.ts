/**
 * Checks of what one call is given: what is wrong is refused before anything is sent, in the words of a server.
 *
 * Not every program has its types checked, and what has another type would be sent as something else, or fail where it is
 * sent, as if the server had.
 */
import { types } from "node:util";
import { invalidField } from "./errors.js";

/** A text. */
export function textOf(value: unknown, name: string): string {
  if (typeof value !== "string") throw invalidField(name, `must be a string, not ${kindOf(value)}`);
  return value;
}

/** A number for an unsigned 32-bit field. */
export function uint32(value: number, name: string): number {
  if (!Number.isInteger(value) || value < 0 || value > 0xffff_ffff) {
    throw invalidField(name, `must be a whole number from 0 to 4294967295, not ${shown(value)}`);
  }
  return value;
}

/** Bytes as the wire has them: text becomes UTF-8. */
export function bytesOf(value: Uint8Array | string | undefined, name = "payload"): Uint8Array {
  if (value === undefined) return new Uint8Array();
  if (typeof value === "string") return new TextEncoder().encode(value);
  if (!types.isUint8Array(value)) {
    throw invalidField(
      name,
      `must be a string or a Uint8Array, not ${kindOf(value)}: JSON.stringify makes a string`,
    );
  }
  return value;
}

/** A wrong value, for people. */
export function shown(value: unknown): string {
  return typeof value === "number" || typeof value === "string" ? String(value) : kindOf(value);
}

/** What a wrong value is, for people. */
export function kindOf(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  if (typeof value !== "object") return `a ${typeof value}`;
  const name = (value as { constructor?: { name?: unknown } }).constructor?.name;
  return name === "Object" || typeof name !== "string" ? "an object" : `an instance of ${name}`;
}
