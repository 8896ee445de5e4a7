/** A worker that is told to stop finishes, releases, and leaves nothing to run out. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as yieldToEvents } from "node:timers/promises";
import { Log, Scene, within } from "./support.js";

const never = () => new Promise<void>(() => undefined);

test("a drain finishes what runs and starts nothing new", async () => {
  await using scene = await Scene.withShortLeases();
  await scene.submit("a", "b", "c");
  const running = scene.start({ concurrency: 2 });
  await scene.untilStarted(2);
  running.worker.drain();
  const before = (await scene.server.until("the drain", (seen) => seen.drains === 1)).heartbeats;
  // Several lease durations: heartbeats go on until the last settlement.
  await scene.server.until("heartbeats", (seen) => seen.heartbeats >= before + 6);
  scene.openGate();
  await running.end();
  const { seen } = scene.server;
  assert.equal(seen.settled("complete").length, 2);
  assert.deepEqual([seen.delivered.length, seen.expired], [2, 0]);
  assert.equal(scene.server.outstanding("q", "c")?.attempt, 1);
});

test("an idle worker drains at once, and closes its connection", async () => {
  await using scene = await Scene.with();
  const running = scene.start();
  await scene.server.until("a session", (seen) => seen.sessions === 1);
  await running.drain();
  await scene.server.until("the session's end", (seen) => seen.sessions === 0);
});

test("a worker that never reached a server drains at once", async () => {
  await using scene = await Scene.with();
  scene.server.script.unwelcomeSessions = 10;
  const running = scene.start();
  await scene.server.until("a try", (seen) => seen.hellos.length > 0);
  await running.drain();
});

test("a worker that is told to stop before it runs stops at once", async () => {
  await using scene = await Scene.with();
  const worker = scene.worker();
  worker.drain();
  await within("the end", worker.runUntil());
});

test("after the grace handlers are cancelled and their jobs released", async () => {
  await using scene = await Scene.with();
  await scene.submit("a");
  const running = scene.start({ shutdownGraceMs: 100 });
  await scene.untilStarted(1);
  await running.drain();
  await scene.untilCancelled("a", "WORKER_SHUTDOWN");
  assert.deepEqual(scene.server.seen.settled("release"), ["a"]);
  assert.equal(scene.server.outstanding("q", "a")?.attempt, 1, "no attempt is lost");
});

test("what a handler returns after the grace still counts", async () => {
  await using scene = await Scene.with();
  await scene.submit("a");
  const started = new Log<string>();
  const running = scene.start({
    shutdownGraceMs: 50,
    handler: async ({ signal }, { key }) => {
      started.add(key);
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    },
  });
  await started.until("the handler", (all) => all.length === 1);
  await running.drain();
  assert.deepEqual(scene.server.seen.settled("complete"), ["a"]);
});

test("a handler that does not end when it is cancelled is left behind and its job is not released", async () => {
  await using scene = await Scene.with();
  await scene.submit("a");
  const started = new Log<string>();
  const running = scene.start({
    shutdownGraceMs: 50,
    cancelGraceMs: 100,
    handler: (_context, { key }) => {
      started.add(key);
      return never();
    },
  });
  await started.until("the handler", (all) => all.length === 1);
  await running.drain();
  assert.deepEqual(scene.server.seen.settled("release"), []);
  assert.equal(scene.server.outstanding("q", "a")?.state, "LEASED", "nobody else runs it beside the handler");
  assert.equal((await scene.untilEvent("stopped")).abandoned, 1);
});

test("results that no server confirmed are counted and warned of", async () => {
  await using scene = await Scene.with();
  scene.server.script.unansweredSettlements = 2;
  await scene.submit("a", "b", "c");
  scene.openGate();
  const running = scene.start({ shutdownGraceMs: 0, cancelGraceMs: 0 });
  await scene.untilEvent("settled");
  await running.drain();
  assert.deepEqual(await scene.untilEvent("stopped"), { type: "stopped", abandoned: 0, unconfirmed: 2 });
  const { level, text } = scene.lines.all.at(-1) ?? {};
  assert.equal(level, "warn");
  assert.match(text ?? "", /stopped, unconfirmed results of handlers: 2; their jobs run again/);
});

test("results that a worker has when it is refused are counted", async () => {
  await using scene = await Scene.with();
  scene.server.script.unansweredSettlements = 1;
  await scene.submit("a");
  scene.openGate();
  const running = scene.start();
  await scene.server.until("the result", (seen) => seen.settled("complete").includes("a"));
  scene.server.script.refuseSessions.push({ code: "PERMISSION_DENIED", message: "no" });
  scene.server.endSessions();
  await assert.rejects(running.end(), { kind: "REFUSED" });
  assert.deepEqual(await scene.untilEvent("stopped"), { type: "stopped", abandoned: 0, unconfirmed: 1 });
});

test("a second order releases everything and is an error", async () => {
  await using scene = await Scene.with();
  await scene.submit("a", "b");
  const running = scene.start();
  await scene.untilStarted(2);
  running.worker.drain();
  await scene.untilEvent("draining");
  running.worker.releaseAll();
  await assert.rejects(running.end(), { kind: "FORCED" });
  assert.deepEqual(scene.server.seen.settled("release").sort(), ["a", "b"]);
});

test("an aborted signal drains", async () => {
  await using scene = await Scene.with();
  const stop = new AbortController();
  const run = scene.worker().runUntil(stop.signal);
  stop.abort();
  await within("the end", run);
  await scene.untilEvent("draining");
});

test("leaving the scope of a worker drains it", async () => {
  await using scene = await Scene.with();
  await scene.submit("a");
  {
    await using worker = scene.worker();
    void worker.runUntil();
    await scene.untilStarted(1);
    scene.openGate();
  }
  assert.deepEqual(scene.server.seen.settled("complete"), ["a"]);
});

test("settlements are flushed although the stream breaks during the drain", async () => {
  await using scene = await Scene.with();
  await scene.submit("a");
  const running = scene.start();
  await scene.untilStarted(1);
  running.worker.drain();
  await scene.server.until("the drain", (seen) => seen.drains === 1);
  scene.server.endSessions();
  scene.openGate();
  await running.end();
  assert.deepEqual(scene.server.seen.settled("complete"), ["a"]);
});

// Only here signals are sent, one test at a time: every worker that listens in this process gets them.
test("the first signal after a drain by hand leaves running handlers their grace", async () => {
  await using scene = await Scene.with();
  await scene.submit("a");
  const worker = scene.worker();
  const run = within("the end", worker.run());
  await scene.untilStarted(1);
  worker.drain();
  await scene.server.until("the drain", (seen) => seen.drains === 1);
  const heard = new Promise((resolve) => process.once("SIGTERM", resolve));
  process.kill(process.pid, "SIGTERM");
  await heard;
  scene.openGate();
  await run;
  assert.deepEqual(scene.server.seen.settled("complete"), ["a"]);
});

test("the first signal drains and the second releases everything", async () => {
  await using scene = await Scene.with();
  await scene.submit("a");
  const started = new Log<string>();
  const worker = scene.worker({
    handler: (_context, { key }) => {
      started.add(key);
      return never();
    },
  });
  const run = within("the end", worker.run());
  await started.until("the handler", (all) => all.length === 1);
  process.kill(process.pid, "SIGTERM");
  await scene.server.until("the drain", (seen) => seen.drains === 1);
  process.kill(process.pid, "SIGINT");
  await assert.rejects(run, { kind: "FORCED" });
  assert.deepEqual(scene.server.seen.settled("release"), [], "its handler still runs");
  assert.equal(process.listenerCount("SIGTERM"), 0, "the listeners are gone");
});

test("a drain while the session opens leaves no delivery behind", async () => {
  await using scene = await Scene.with();
  await scene.submit("a", "b", "c", "d");
  scene.openGate();
  for (let tries = 0; tries < 12; tries += 1) {
    const running = scene.start({ workerId: `worker-${tries}` });
    await scene.events.until(
      "a try",
      (all) => all.filter((event) => event.type === "connecting").length > tries,
    );
    // Somewhere between the first packet and the first delivery.
    for (let turns = 0; turns < tries * 3; turns += 1) await yieldToEvents();
    await running.drain();
  }
  const { seen } = scene.server;
  const ended = seen.settled("complete").length + seen.settled("release").length;
  assert.equal(seen.delivered.length, ended, "every delivery was settled");
});
