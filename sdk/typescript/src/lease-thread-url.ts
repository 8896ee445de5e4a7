/**
 * Where the lease thread's code is: beside this file, and so beside the bundle where a bundler has taken this file in.
 * Bundlers that know `new URL(…, import.meta.url)` take the other file in too.
 */
export function ownLeaseThread(): URL {
  return new URL("./lease-thread.js", import.meta.url);
}
