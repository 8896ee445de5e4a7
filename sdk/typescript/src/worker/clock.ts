/** The one monotonic clock of all threads: `performance.now()` counts from another origin in each. */

/** Milliseconds since some point in the past. */
export function now(): number {
  const [seconds, nanos] = process.hrtime();
  return seconds * 1_000 + nanos / 1_000_000;
}
