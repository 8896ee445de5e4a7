/** The parts that need no server: fences, heartbeats, waits, errors. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { Code, ConnectError } from "@connectrpc/connect";
import { Backoff } from "../src/backoff.js";
import { Channels } from "../src/client/channels.js";
import { packDetails, readDetails } from "../src/details.js";
import { errorFrom } from "../src/errors.js";
import { reasons, VERSION } from "../src/index.js";
import { job } from "../src/testing/index.js";
import { Context } from "../src/worker/context.js";
import { Shared } from "../src/worker/shared.js";
import { Beats } from "../src/worker/thread/beats.js";
import { fenceAt, fenceOf, Leases } from "../src/worker/thread/leases.js";

/** A table with one waiting lease whose fence is at 10,000. */
function one() {
  const shared = new Shared(undefined, 4);
  const leases = new Leases(shared);
  const held = leases.insert(Buffer.from("token"), 0, job("q", "k"), 10_000);
  return { shared, leases, held };
}

const terms = [{ leaseDurationMs: 15_000, disconnectGraceMs: undefined }];

test("a fence counts from when the question was sent", () => {
  assert.equal(fenceAt(0, 15_000, 1_000), 14_000);
  assert.equal(fenceAt(500, 1_000, 2_000), 500);
});

test("a fence only moves forward, and the handler sees it", () => {
  const { shared, leases, held } = one();
  leases.start(held);
  leases.extend(held, 0, 5_000, 1_000);
  assert.equal(held.fence, 10_000);
  leases.extend(held, 5_000, 15_000, 1_000);
  assert.deepEqual(leases.fenced(terms, undefined, 18_999), { due: [], next: 19_000 });
  assert.deepEqual(leases.fenced(terms, undefined, 19_000).due, [held]);
  assert.equal(shared.deadline(held.slot), 19_000);
});

test("a disconnect grace brings the fence nearer only while the stream is broken", () => {
  const { held } = one();
  const graceful = [{ leaseDurationMs: 15_000, disconnectGraceMs: 1_000 }];
  assert.equal(fenceOf(held, graceful, undefined), 10_000);
  assert.equal(fenceOf(held, graceful, 2_000), 3_000);
});

test("a settlement under way is not fenced and not lost", () => {
  const { leases, held } = one();
  assert(leases.giveBack(held));
  assert.deepEqual(leases.fenced(terms, undefined, 60_000).due, []);
  assert.equal(leases.lose(held, "LEASE_LOST", 0), false);
  assert(leases.settled(held));
  assert(leases.isEmpty);
});

test("a slot is used again only after its handler has ended", () => {
  const { shared, leases, held } = one();
  leases.start(held);
  const { slot } = held;
  assert(leases.lose(held, "JOB_CANCELLED", 0));
  assert.equal(shared.reason(slot), "JOB_CANCELLED");
  assert.deepEqual([leases.occupied, leases.occupiedByLost], [1, 1]);
  const next = leases.insert(Buffer.from("other"), 0, job("q", "l"), 1);
  leases.start(next);
  assert.notEqual(next.slot, slot);
  assert.equal(leases.finish(held, { as: "complete" }, true), false, "its outcome is dropped");
  const third = leases.insert(Buffer.from("third"), 0, job("q", "m"), 1);
  leases.start(third);
  assert.deepEqual([third.slot, shared.reason(slot)], [slot, undefined]);
});

test("the first reason of a cancellation stays", () => {
  const shared = new Shared(undefined, 1);
  shared.cancel(0, "WORKER_SHUTDOWN");
  shared.cancel(0, "LEASE_LOST");
  assert.equal(shared.reason(0), "WORKER_SHUTDOWN");
  assert.equal(new Shared(shared.buffer, 1).reason(0), "WORKER_SHUTDOWN", "in every thread");
});

test("a signal is aborted by the event loop, and is up to date when it is asked for late", () => {
  const shared = new Shared(undefined, 1);
  const view = { reason: () => shared.reason(0), deadline: () => 0 };
  const [early, late] = [new Context(view), new Context(view)];
  shared.cancel(0, "JOB_CANCELLED");
  assert.equal(early.signal.aborted, false, "a listener that is added now will be called");
  const heard: unknown[] = [];
  early.signal.addEventListener("abort", () => heard.push(early.reason));
  for (const context of [early, late]) context.fire();
  assert.deepEqual(heard, ["JOB_CANCELLED"]);
  assert.equal(late.signal.aborted, true);
  assert.throws(() => late.throwIfCancelled(), { name: "CancelledError", reason: "JOB_CANCELLED" });
});

test("an answer answers all earlier heartbeats and no later one", () => {
  const beats = new Beats(0);
  for (const at of [1, 2, 3]) beats.sent([], at);
  assert.deepEqual(
    beats.answered(2n).map(({ sent }) => sent),
    [1, 2],
  );
  assert.deepEqual(beats.answered(2n), []);
  assert.equal(beats.basis, 2);
});

test("an answer of an earlier session proves nothing", () => {
  const beats = new Beats(0);
  const sequence = beats.sent([1], 0);
  beats.opened(9);
  assert.deepEqual(beats.answered(sequence), []);
  assert.equal(beats.basis, 9);
});

test("waits stay between the shortest and the longest, and are short again after a success", () => {
  const backoff = new Backoff();
  for (let tries = 0; tries < 100; tries += 1) {
    const wait = backoff.next();
    assert(wait >= 100 && wait <= 10_000, String(wait));
  }
  backoff.reset();
  assert(backoff.next() <= 200);
});

test("a channel is made anew after repeated outages of its server, and only then", () => {
  const endpoints = ["http://127.0.0.1:1", "http://127.0.0.1:2"];
  const channels = new Channels({ endpoints, headers: {}, tls: undefined });
  const first = channels.current();
  /** One round of outages, of both servers. */
  const round = () => {
    for (const _ of endpoints) channels.turnAway(channels.place());
  };
  round();
  round();
  assert.equal(channels.current(), first, "it may come back");
  channels.answered(channels.place());
  round();
  round();
  assert.equal(channels.current(), first, "what was before its last answer is forgiven");
  round();
  assert.notEqual(channels.current(), first);
  channels.turnAway(channels.place() - 1);
  assert.equal(channels.place(), 10, "a server that was turned away from is not turned away from again");
  channels.close();
});

test("the details of a status are read as they were written", () => {
  const details = {
    reason: "INVALID_FIELD",
    violations: [{ field: "items[3].key", description: "must not be empty" }],
    retryAfterMs: 2_500,
  };
  assert.deepEqual(readDetails(packDetails(details)), details);
  const unreadable = { type: "google.rpc.ErrorInfo", value: new Uint8Array([0x0a, 0xff]) };
  assert.equal(readDetails([unreadable, ...packDetails({ retryAfterMs: 10 })]).retryAfterMs, 10);
});

test("what the transport makes up for a dead server is an outage in doubt", () => {
  for (const code of [Code.Canceled, Code.Aborted, Code.Internal, Code.Unknown, Code.Unavailable]) {
    const error = errorFrom(new ConnectError("gone", code));
    assert.equal(error.code, "UNAVAILABLE");
    assert(error.isRetryable() && error.isOutage() && !error.hasNoSideEffects());
  }
});

test("what a server says is what it says", () => {
  const said = new ConnectError("hm", Code.Internal, { "grpc-status": "13" });
  const error = errorFrom(said);
  assert.deepEqual([error.code, error.isRetryable(), error.hasNoSideEffects()], ["INTERNAL", false, false]);
  const sure = errorFrom(new ConnectError("no", Code.Unavailable, { side_effects: "none" }));
  assert(sure.hasNoSideEffects() && sure.isRetryable());
});

test("the constants are all those of docs/errors.md", async () => {
  const text = await readFile(new URL("../../../../docs/errors.md", import.meta.url), "utf8");
  const documented = [...text.matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, name]) => name);
  assert.deepEqual(Object.keys(reasons).sort(), documented.sort());
});

test("the version is the package's", async () => {
  const text = await readFile(new URL("../../package.json", import.meta.url), "utf8");
  assert.equal(VERSION, (JSON.parse(text) as { version: string }).version);
});
