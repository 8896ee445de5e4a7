/** What the runner and the worker-under-test say to each other: JSON objects, one a line. */
import { KeyworkError } from "../../../../sdk/typescript/dist/index.js";

/** A command. What it needs is read from it by those who follow it. */
export interface Command {
  readonly do: string;
  readonly call?: string;
  readonly [member: string]: unknown;
}

/** Says one event. Standard output is written at once where it is a pipe or a file. */
export function say(event: string, members: Record<string, unknown> = {}): void {
  process.stdout.write(`${JSON.stringify({ event, ...members })}\n`);
}

/** Says that a command failed. */
export function sayError(call: string | undefined, thrown: unknown): void {
  if (!(thrown instanceof KeyworkError)) {
    sayRefused(call, "INTERNAL", String(thrown));
    return;
  }
  say("error", {
    call,
    code: thrown.code,
    reason: thrown.reason,
    retryable: thrown.isRetryable(),
    no_side_effects: thrown.hasNoSideEffects(),
    fields: thrown.violations.map(({ field }) => field),
    message: thrown.message,
  });
}

/** Says that a command cannot be followed, by a code of the protocol's own. */
export function sayRefused(call: string | undefined, code: string, message: string): void {
  say("error", { call, code, reason: "", fields: [], message });
}

/** Says that a command, or a part of it, is not known here. */
export function sayUnsupported(call: string | undefined, what: string): void {
  sayRefused(call, "UNSUPPORTED", `${what} is not known`);
}

/** A number of a command; 0 counts as not given. */
export function number(value: unknown): number | undefined {
  return typeof value === "number" && value !== 0 ? value : undefined;
}

/** A text of a command. */
export function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
