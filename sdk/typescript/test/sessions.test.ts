/** A worker keeps its session whatever the server does, and stops only when it must. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ErrorCode, WorkerError } from "../src/index.js";
import { Client, KeyworkError, Worker } from "../src/index.js";
import { Scene } from "./support.js";

test("a stream that ends OK is opened again, and its leases are claimed", async () => {
  // So long that no heartbeat is due by itself while the test waits.
  await using scene = await Scene.with({ leaseDurationMs: 120_000 });
  await scene.submit("a");
  const running = scene.start();
  await scene.untilStarted(1);
  scene.server.endSessions();
  const { hellos } = await scene.server.until("a second session", (seen) => seen.hellos.length === 2);
  assert.equal(hellos[0]?.heldLeases.length, 0);
  assert.equal(hellos[1]?.heldLeases.length, 1, "the lease is claimed");
  assert.match(Buffer.from(hellos[1]?.sessionTicket ?? []).toString(), /^ticket-/, "with the newest ticket");
  assert.equal(hellos[0]?.workerId, hellos[1]?.workerId);
  // It was extended last through the first session: how much time it has left is not to be counted on.
  await scene.server.until("a heartbeat at once", (seen) => seen.heartbeats > 0);
  scene.openGate();
  await scene.server.until("the job to complete", (seen) => seen.settled("complete").includes("a"));
  assert.deepEqual(scene.server.seen.delivered, ["a"], "it ran once");
  await running.drain();
});

test("every status that is no refusal means reconnect", async () => {
  await using scene = await Scene.with();
  const running = scene.start();
  const codes: ErrorCode[] = ["UNAVAILABLE", "UNKNOWN", "CANCELLED", "INTERNAL", "RESOURCE_EXHAUSTED"];
  for (const [ended, code] of codes.entries()) {
    await scene.server.until(
      `session ${ended}`,
      (seen) => seen.hellos.length === ended + 1 && seen.sessions === 1,
    );
    scene.server.endSessions({ code, message: "gone" });
  }
  await scene.server.until("a last session", (seen) => seen.hellos.length === codes.length + 1);
  await running.drain();
});

test("a connection that breaks means reconnect", async () => {
  await using scene = await Scene.with();
  await scene.submit("a");
  const running = scene.start();
  await scene.untilStarted(1);
  scene.server.breakConnections();
  const { hellos } = await scene.server.until("a second session", (seen) => seen.hellos.length === 2);
  assert.equal(hellos[1]?.heldLeases.length, 1);
  scene.openGate();
  await running.drain();
  assert.deepEqual(scene.server.seen.settled("complete"), ["a"]);
});

test("a refusal stops the worker and is told", async () => {
  const refusals: ErrorCode[] = [
    "INVALID_ARGUMENT",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
    "NOT_FOUND",
    "UNIMPLEMENTED",
  ];
  for (const code of refusals) {
    await using scene = await Scene.with();
    scene.server.script.refuseSessions.push({ code, message: "no" });
    await assert.rejects(scene.start().end(), (error: WorkerError) => {
      assert.equal(error.kind, "REFUSED");
      assert(error.cause instanceof KeyworkError);
      return error.cause.code === code;
    });
    assert.deepEqual(
      scene.events.all.map((event) => event.type),
      ["connecting", "failed", "stopped"],
    );
  }
});

test("a refusal in the middle cancels the handlers", async () => {
  await using scene = await Scene.with();
  await scene.submit("a");
  const running = scene.start();
  await scene.untilStarted(1);
  scene.server.endSessions({ code: "PERMISSION_DENIED", message: "no more" });
  await scene.untilCancelled("a", "LEASE_LOST");
  await assert.rejects(running.end(), { kind: "REFUSED" });
});

test("a server that never says Welcome is left", async () => {
  await using scene = await Scene.with();
  scene.server.script.unwelcomeSessions = 1;
  await scene.submit("a");
  const running = scene.start();
  await scene.untilStarted(1);
  await scene.untilEvent("degraded");
  scene.openGate();
  await running.drain();
});

test("a server that falls silent is left within its liveness timeout", async () => {
  await using scene = await Scene.withShortLeases();
  const running = scene.start();
  await scene.untilEvent("ready");
  scene.server.script.silent = true;
  await scene.untilEvent("degraded");
  assert.equal(running.worker.healthy(), false);
  scene.server.script.silent = false;
  await scene.submit("a");
  scene.openGate();
  await scene.server.until("the job to complete", (seen) => seen.settled("complete").includes("a"));
  await running.drain();
});

test("a superseded worker stops and does not come back", async () => {
  await using scene = await Scene.with();
  await scene.submit("a");
  const older = scene.start({ workerId: "same" });
  await scene.untilStarted(1);
  const newer = scene.start({ workerId: "same" });
  await assert.rejects(older.end(), { kind: "SUPERSEDED" });
  await scene.untilCancelled("a", "LEASE_LOST");
  const seen = await scene.server.until("the job to be handed on", (seen) => seen.delivered.length === 2);
  assert.equal(seen.hellos.length, 2, "no ping-pong");
  scene.openGate();
  await newer.drain();
});

test("a stream that ends as superseded stops the worker too", async () => {
  await using scene = await Scene.with();
  const running = scene.start();
  await scene.server.until("a session", (seen) => seen.sessions === 1);
  scene.server.endSessions({ code: "ABORTED", reason: "SESSION_SUPERSEDED" });
  await assert.rejects(running.end(), { kind: "SUPERSEDED" });
});

test("a server that drains is left with the leases kept", async () => {
  await using scene = await Scene.with();
  await scene.submit("a");
  const running = scene.start();
  await scene.untilStarted(1);
  scene.server.goAway("DRAINING", { reconnectDelayMs: 50 });
  const { hellos } = await scene.server.until("a second session", (seen) => seen.hellos.length === 2);
  assert.equal(hellos[1]?.heldLeases.length, 1);
  scene.openGate();
  await running.drain();
  assert.deepEqual(scene.server.seen.settled("complete"), ["a"]);
  assert.deepEqual(scene.server.seen.delivered, ["a"]);
});

test("a Hello that was too slow is said again", async () => {
  await using scene = await Scene.with();
  scene.server.script.refuseSessions.push({ code: "UNAVAILABLE", reason: "HELLO_LATE" });
  const running = scene.start();
  await scene.server.until("a session", (seen) => seen.sessions === 1);
  await running.drain();
});

test("a worker is healthy while its session is live, and runs once", async () => {
  await using scene = await Scene.with();
  scene.server.script.refuseSessions.push({ code: "UNAVAILABLE" });
  const running = scene.start();
  assert.equal(running.worker.healthy(), false);
  await scene.untilEvent("ready");
  assert.equal(running.worker.healthy(), true);
  assert.equal(running.worker.counts().sessions, 1);
  await running.drain();
  assert.equal(running.worker.healthy(), false);
  await assert.rejects(running.worker.runUntil(), { kind: "STARTED_BEFORE" });
});

test("a lease thread that cannot be started is told, with where it was looked for", async () => {
  await using scene = await Scene.with();
  const running = scene.start({ leaseThread: new URL("./no-such-file.js", import.meta.url) });
  await assert.rejects(running.end(), (error: WorkerError) => {
    assert.equal(error.kind, "BROKEN");
    return /no-such-file/.test(error.message);
  });
});

test("a lease thread that dies cancels the handlers", async () => {
  await using scene = await Scene.with();
  const start = { kind: "start", lease: 1, slot: 0, job: { key: "a" } };
  const code = `
    import { parentPort } from "node:worker_threads";
    parentPort.postMessage([${JSON.stringify(start)}]);
    parentPort.on("message", () => undefined);
    setTimeout(() => { throw new Error("boom"); }, 100);`;
  const leaseThread = new URL(`data:text/javascript,${encodeURIComponent(code)}`);
  const running = scene.start({ leaseThread });
  await scene.untilCancelled("a", "LEASE_LOST");
  await assert.rejects(running.end(), { kind: "BROKEN", message: /boom/ });
  await scene.untilEvent("failed");
});

test("with several servers the worker goes on at the next one", async () => {
  await using first = await Scene.with();
  await using second = await Scene.with();
  const client = new Client({
    endpoints: ["http://127.0.0.1:9", first.server.endpoint, second.server.endpoint],
  });
  await using worker = new Worker({ client, queues: ["q"], handler: () => undefined });
  const run = worker.runUntil();
  await Promise.race([
    first.server.until("a session", (seen) => seen.sessions === 1),
    second.server.until("a session", (seen) => seen.sessions === 1),
  ]);
  worker.drain();
  await run;
  client.close();
});
