/** A worker extends what it holds, and stops a handler before its lease can be somebody else's. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as yieldToEvents } from "node:timers/promises";
import { Log, Scene } from "./support.js";

test("a job that takes many lease durations runs once", async () => {
  await using scene = await Scene.withShortLeases();
  await scene.submit("long");
  const running = scene.start();
  await scene.server.until("many heartbeats", (seen) => seen.heartbeats >= 10);
  scene.openGate();
  const seen = await scene.server.until("completion", (seen) => seen.settled("complete").includes("long"));
  assert.deepEqual([seen.delivered.length, seen.expired], [1, 0]);
  await running.drain();
});

test("a worker whose heartbeats are not answered stops its handlers before the deadline", async () => {
  await using scene = await Scene.withShortLeases();
  await scene.submit("a");
  scene.server.script.ignoreHeartbeats = true;
  const running = scene.start();
  await scene.untilCancelled("a", "LEASE_LOST");
  assert.equal(scene.server.seen.expired, 0, "the lease had not run out yet");
  scene.server.script.ignoreHeartbeats = false;
  await scene.server.until("another delivery", (seen) => seen.delivered.length === 2);
  scene.openGate();
  const seen = await scene.server.until("completion", (seen) => seen.settled("complete").length > 0);
  assert.equal(seen.settlements.length, 1, "the first handler's result was dropped");
  assert.equal(running.worker.counts().droppedResults, 1);
  await running.drain();
});

test("a lease that the server takes away cancels its handler at once", async () => {
  await using scene = await Scene.with();
  await scene.submit("a", "b");
  const running = scene.start();
  await scene.untilStarted(2);
  const before = performance.now();
  scene.server.loseLease("q", "a");
  await scene.untilCancelled("a", "LEASE_LOST");
  const took = performance.now() - before;
  assert(took < 1_000, `${took} ms`);
  const event = await scene.untilEvent("lease_lost");
  assert.deepEqual(event, { type: "lease_lost", queue: "q", key: "a", reason: "EXPIRED" });
  scene.openGate();
  await running.drain();
});

test("a job that is cancelled tells its handler so", async () => {
  await using scene = await Scene.with();
  await scene.submit("a");
  const running = scene.start();
  await scene.untilStarted(1);
  assert.equal(await scene.client.purgeQueue("q"), 1);
  await scene.untilCancelled("a", "JOB_CANCELLED");
  await running.drain();
});

test("a loss that only a heartbeat tells cancels too", async () => {
  await using scene = await Scene.withShortLeases();
  await scene.submit("a");
  const running = scene.start({ concurrency: 1 });
  await scene.untilStarted(1);
  await scene.client.pauseQueue("q");
  scene.server.loseLease("q", "a", { tell: false });
  await scene.untilCancelled("a", "LEASE_LOST");
  await running.drain();
});

test("where there is a disconnect grace handlers stop that long after the stream broke", async () => {
  await using scene = await Scene.with({ leaseDurationMs: 60_000, disconnectGraceMs: 500 });
  await scene.submit("a");
  const running = scene.start();
  await scene.untilStarted(1);
  scene.server.script.refuseSessions.push(
    ...Array.from({ length: 20 }, () => ({ code: "UNAVAILABLE" as const })),
  );
  scene.server.endSessions();
  await scene.untilCancelled("a", "LEASE_LOST");
  scene.server.script.refuseSessions.splice(0);
  scene.openGate();
  await scene.server.until("the job to run again", (seen) => seen.settled("complete").includes("a"));
  await running.drain();
});

test("a handler that lost its lease keeps its slot until it ends, and is reported", async () => {
  await using scene = await Scene.with();
  await scene.submit("stubborn");
  const started = new Log<string>();
  const release = new AbortController();
  const running = scene.start({
    concurrency: 2,
    handler: async (_context, job) => {
      started.add(job.key);
      await new Promise((resolve) => release.signal.addEventListener("abort", resolve, { once: true }));
    },
  });
  await started.until("the handler", (keys) => keys.length === 1);
  await scene.client.purgeQueue("q");
  await scene.server.until("a lower capacity", (seen) => seen.capacity === 1);
  const { cancelledForMs } = await scene.untilEvent("handler_ignores_cancellation");
  assert(cancelledForMs >= 5_000);
  release.abort();
  await scene.server.until("the full capacity", (seen) => seen.capacity === 2);
  await running.drain();
  assert.equal(running.worker.counts().droppedResults, 1);
});

test("no more handlers run at once than the concurrency says", async () => {
  await using scene = await Scene.with();
  await scene.submit("a", "b", "c", "d", "e");
  const running = scene.start({ concurrency: 2 });
  await scene.untilStarted(2);
  assert.equal(scene.server.seen.delivered.length, 2, "what has no slot stays in the queue");
  scene.openGate();
  await scene.server.until("all to complete", (seen) => seen.settled("complete").length === 5);
  await running.drain();
});

test("the deadline of a context moves with the heartbeats", async () => {
  await using scene = await Scene.withShortLeases();
  await scene.submit("a");
  const deadlines = new Log<[number, number]>();
  const running = scene.start({
    handler: async (context) => {
      const first = context.deadline.getTime();
      while (context.deadline.getTime() - first < 100) await yieldToEvents();
      deadlines.add([first, context.deadline.getTime()]);
    },
  });
  const [[first, later] = [0, 0]] = await deadlines.until("a deadline that moves", (all) => all.length > 0);
  assert(first < later);
  await running.drain();
});

test("a heartbeat that could not be confirmed extends nothing", async () => {
  await using scene = await Scene.withShortLeases();
  await scene.submit("a");
  scene.server.script.unconfirmedHeartbeats = true;
  const running = scene.start();
  await scene.untilCancelled("a", "LEASE_LOST");
  const { expired, hellos } = scene.server.seen;
  assert.deepEqual([expired, hellos.length], [0, 1], "in time, and the session went on");
  scene.server.script.unconfirmedHeartbeats = false;
  scene.openGate();
  await running.drain();
});

test("a handler that does not yield learns of its cancellation by asking", async () => {
  await using scene = await Scene.withShortLeases();
  await scene.submit("hot");
  const seen = new Log<unknown>();
  // The server lives on this thread too, so that it cannot answer heartbeats while the handler burns.
  const running = scene.start({
    handler: (context) => {
      if (seen.all.length > 0) return;
      const start = performance.now();
      while (!context.isCancelled && performance.now() - start < 5_000);
      seen.add(context.reason);
      context.throwIfCancelled();
    },
  });
  const [reason] = await seen.until("the handler to notice", (all) => all.length > 0);
  assert.equal(reason, "LEASE_LOST");
  await scene.untilEvent("lease_lost");
  await running.drain();
});
