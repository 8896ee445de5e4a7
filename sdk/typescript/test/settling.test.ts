/** How a handler ends is what its job becomes, once. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  CancelledError,
  Fail,
  type Handler,
  type HandlerResult,
  type Job,
  KeyworkError,
  Release,
  Rerun,
  Retry,
} from "../src/index.js";
import { job, runOnce } from "../src/testing/index.js";
import { accepted, Log, Scene } from "./support.js";

function byKey({ key, attempt }: Job): HandlerResult {
  switch (key) {
    case "retry":
      if (attempt === 1) throw new Retry({ delayMs: 20, because: "later" });
      return;
    case "error":
      if (attempt === 1) throw new Error("broke");
      return;
    case "returned":
      return attempt === 1 ? new Retry() : undefined;
    case "fail":
      throw new Fail("no use");
    case "release":
      throw new Release();
  }
}

test("each end of a handler settles its job in its own way", async () => {
  await using scene = await Scene.with();
  await scene.submit("complete", "retry", "error", "returned", "fail");
  const running = scene.start({ handler: (_context, job) => byKey(job) });
  const seen = await scene.server.until("all to end", (seen) => seen.settled("complete").length === 4);
  assert.deepEqual(seen.settled("retry").sort(), ["error", "retry", "returned"]);
  const errorOf = (key: string) =>
    seen.settlements.find((one) => one.key === key && one.as === "retry")?.error;
  assert.equal(errorOf("retry"), "later");
  assert.equal(errorOf("error"), "broke");
  const [dead] = scene.server.dead("q");
  assert.deepEqual([dead?.job.key, dead?.job.lastError, dead?.reason], ["fail", "no use", "FAILED"]);
  await running.drain();
});

test("a settled event tells of every settlement that was answered", async () => {
  await using scene = await Scene.with();
  await scene.submit("a", "b");
  scene.server.script.settlementAnswers.push("LEASE_LOST");
  scene.openGate();
  const running = scene.start({ concurrency: 1 });
  const lost = await scene.untilEvent("settled", (event) => event.key === "a");
  // The server of this test only says that it is lost.
  scene.server.loseLease("q", "a", { tell: false });
  const settled = await scene.untilEvent("settled", (event) => event.key === "b");
  assert.deepEqual([lost.outcome, settled.outcome, settled.queue], ["LEASE_LOST", "SETTLED", "q"]);
  assert(settled.fencingNumber > lost.fencingNumber);
  await running.drain();
});

test("a released job costs no attempt", async () => {
  await using scene = await Scene.with();
  const attempts = new Log<number>();
  const running = scene.start({
    handler: (_context, { attempt }) => {
      attempts.add(attempt);
      if (attempts.all.length === 1) throw new Release();
    },
  });
  await scene.submit("a");
  await attempts.until("two runs", (all) => all.length === 2);
  assert.deepEqual(attempts.all, [1, 1]);
  await running.drain();
});

test("a settlement without an answer is sent again after the reconnect", async () => {
  await using scene = await Scene.with();
  scene.server.script.unansweredSettlements = 1;
  await scene.submit("a");
  scene.openGate();
  const running = scene.start();
  await scene.server.until("the settlement", (seen) => seen.settlements.length === 1);
  scene.server.endSessions();
  const seen = await scene.server.until("it again", (seen) => seen.settlements.length === 2);
  assert.equal(seen.settlements[1]?.answer, "ALREADY_SETTLED");
  assert.equal(seen.delivered.length, 1);
  await running.drain();
  const { settled, droppedResults } = running.worker.counts();
  assert.deepEqual([settled, droppedResults], [1, 0]);
});

test("a settlement that could not be confirmed is tried again", async () => {
  await using scene = await Scene.with();
  scene.server.script.settlementAnswers.push("TRY_AGAIN", "TRY_AGAIN");
  await scene.submit("a");
  scene.openGate();
  const running = scene.start();
  const seen = await scene.server.until("success", (seen) => seen.settled("complete").includes("a"));
  assert.equal(seen.settlements.length, 3);
  await running.drain();
});

test("a settlement that came too late is dropped and counted", async () => {
  await using scene = await Scene.with();
  scene.server.script.settlementAnswers.push("LEASE_LOST");
  await scene.submit("a");
  scene.openGate();
  const running = scene.start();
  await scene.server.until("the settlement", (seen) => seen.settlements.length > 0);
  await running.drain();
  const { settled, droppedResults, leasesLost } = running.worker.counts();
  assert.deepEqual([settled, droppedResults, leasesLost], [0, 1, 1]);
});

test("a settlement that is refused becomes a retry", async () => {
  await using scene = await Scene.with();
  const running = scene.start({
    handler: (_context, { attempt }) => (attempt === 1 ? new Rerun() : undefined),
  });
  await scene.submit("a");
  const seen = await scene.server.until("the second attempt", (seen) =>
    seen.settled("complete").includes("a"),
  );
  assert.deepEqual(seen.settled("retry"), ["a"]);
  const { error } = await scene.untilEvent("settlement_rejected");
  assert.match(error, /NOT_SERVED_YET/);
  await running.drain();
});

test("a retry with a delay that is refused becomes one without", async () => {
  await using scene = await Scene.with();
  scene.server.script.settlementAnswers.push("REJECTED");
  const running = scene.start({
    handler: (_context, { attempt }) => (attempt === 1 ? new Retry({ delayMs: 1e11 }) : undefined),
  });
  await scene.submit("a");
  const seen = await scene.server.until("the second attempt", (seen) =>
    seen.settled("complete").includes("a"),
  );
  assert.deepEqual(seen.settled("retry"), ["a"]);
  await running.drain();
});

test("what is ready together is settled in one message", async () => {
  await using scene = await Scene.with();
  const submits = Array.from({ length: 2_000 }, (_, number) => ({ queue: "q", key: `key-${number}` }));
  assert.equal(accepted(await scene.client.submitMany(submits)), 2_000);
  const running = scene.start({ concurrency: 500, handler: () => undefined });
  const seen = await scene.server.until("all", (seen) => seen.settled("complete").length === 2_000);
  assert(seen.settlementMessages <= 1_000, `${seen.settlementMessages} messages`);
  await running.drain();
  assert.equal(running.worker.counts().settled, 2_000);
});

test("runOnce tells how a handler ends", async () => {
  const end = (key: string) => runOnce((_context, job) => byKey(job), job("q", key));
  assert.deepEqual(await end("complete"), { as: "complete" });
  assert.deepEqual(await end("release"), { as: "release" });
  assert.deepEqual(await end("fail"), { as: "fail", reason: "no use" });
  assert.deepEqual(await end("error"), { as: "retry", error: "broke", chosen: false });
  assert.deepEqual(await end("retry"), { as: "retry", delayMs: 20, error: "later", chosen: true });
});

/** Ends when it is told to, with what it was told. */
const untilCancelled: Handler = ({ signal }) =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));

test("runOnce cancels the handler when the test wants it to, and tells what a worker would do", async () => {
  const cancelled = async (reason: unknown) => {
    const stop = new AbortController();
    const outcome = runOnce(untilCancelled, job("q", "k"), { cancel: stop.signal });
    stop.abort(reason);
    return outcome;
  };
  assert.deepEqual(await cancelled("WORKER_SHUTDOWN"), { as: "release" });
  assert.deepEqual(await cancelled("LEASE_LOST"), { as: "dropped", reason: "LEASE_LOST" });
  assert.deepEqual(await cancelled("JOB_CANCELLED"), { as: "dropped", reason: "JOB_CANCELLED" });
  assert.deepEqual(await cancelled(new CancelledError("WORKER_SHUTDOWN")), { as: "release" });
  assert.deepEqual(await cancelled(undefined), { as: "dropped", reason: "LEASE_LOST" }, "the default");
  const other = { cancel: AbortSignal.timeout(1), reason: "JOB_CANCELLED" } as const;
  const timedOut = await runOnce(untilCancelled, job("q", "k"), other);
  assert.deepEqual(timedOut, { as: "dropped", reason: "JOB_CANCELLED" });
});

test("what a handler chose after a shutdown counts in runOnce, as it does in a worker", async () => {
  const stop = new AbortController();
  const handler: Handler = () => {
    stop.abort("WORKER_SHUTDOWN");
    return new Retry({ because: "half done" });
  };
  const outcome = await runOnce(handler, job("q", "k"), { cancel: stop.signal });
  assert.deepEqual(outcome, { as: "retry", error: "half done", chosen: true });
});

test("whatever a handler throws is told, and frees its slot", async () => {
  await using scene = await Scene.with();
  const unreadable = new Error();
  Object.defineProperty(unreadable, "message", {
    get: () => {
      throw new Error("no message");
    },
  });
  const refused = new AggregateError([new Error("connect ECONNREFUSED ::1"), new Error("and 127.0.0.1")]);
  const thrown: [unknown, RegExp][] = [
    ["a text", /^a text$/],
    [new TypeError("boom", { cause: new RangeError("too far") }), /^TypeError: boom: RangeError: too far$/],
    [{ code: 5 }, /^\{ code: 5 \}$/],
    [Object.create(null), /null prototype/],
    [Symbol("s"), /Symbol\(s\)/],
    [refused, /^connect ECONNREFUSED ::1; and 127\.0\.0\.1$/],
    [unreadable, /cannot be shown/],
  ];
  await scene.submit(...thrown.map((_, place) => String(place)));
  const running = scene.start({
    concurrency: 1,
    handler: (_context, { key, attempt }) => {
      if (attempt === 1) throw thrown[Number(key)]?.[0];
    },
  });
  const seen = await scene.server.until("all", (seen) => seen.settled("complete").length === thrown.length);
  for (const [key, [, text]] of thrown.entries()) {
    const retried = seen.settlements.find((one) => one.key === String(key) && one.as === "retry");
    assert.match(retried?.error ?? "", text);
  }
  await running.drain();
});

test("an error tells its causes, and is cut to what servers keep", async () => {
  const cause = new Error("disk full");
  const handler = () => {
    throw new Error("failed to sync", { cause });
  };
  assert.deepEqual(await runOnce(handler, job("q", "k")), {
    as: "retry",
    error: "failed to sync: disk full",
    chosen: false,
  });
  const long = await runOnce(() => Promise.reject(new Error("ü".repeat(3_000))), job("q", "k"));
  assert(long.as === "retry");
  assert.equal(long.error, "ü".repeat(1_024));
});

test("a delay that is none is a bug of the handler, not of the worker", async () => {
  const outcome = await runOnce(() => new Retry({ delayMs: Number.NaN }), job("q", "k"));
  assert(outcome.as === "retry" && !outcome.chosen);
  assert.match(outcome.error, /delayMs/);
});

test("interceptors are called from the outermost inwards", async () => {
  await using scene = await Scene.with();
  await scene.submit("a");
  const log = new Log<string>();
  const named =
    (name: string) => async (_context: unknown, _job: Job, next: () => Promise<HandlerResult>) => {
      log.add(`${name} in`);
      const result = await next();
      log.add(`${name} out`);
      return result;
    };
  const running = scene.start({ interceptors: [named("outer"), named("inner")], handler: () => undefined });
  await log.until("both", (all) => all.length === 4);
  assert.deepEqual(log.all, ["outer in", "inner in", "inner out", "outer out"]);
  await running.drain();
});

test("a job's payload is bytes, and can be read as text and as JSON", async () => {
  await using scene = await Scene.with();
  const jobs = new Log<Job>();
  const running = scene.start({ handler: (_context, job) => jobs.add(job) });
  const attributes = { color: "red" };
  await scene.client.submit({
    queue: "q",
    key: "ü",
    payload: '{"n":1}',
    contentType: "application/json",
    attributes,
  });
  const [job] = await jobs.until("the job", (all) => all.length === 1);
  assert.deepEqual(job?.payload, new TextEncoder().encode('{"n":1}'));
  assert.deepEqual([job?.key, job?.text(), job?.json()], ["ü", '{"n":1}', { n: 1 }]);
  assert.deepEqual([job?.attributes, job?.contentType, job?.attempt], [attributes, "application/json", 1]);
  assert.equal(typeof job?.fencingNumber, "bigint");
  await running.drain();
});

test("leases can be pulled, extended and settled without a stream", async () => {
  await using scene = await Scene.with();
  const { client } = scene;
  await scene.submit("a");
  const [leased] = await client.pull("q", { waitMs: 5_000 });
  assert(leased !== undefined);
  const { token } = leased;
  const [extended] = await client.heartbeat([token]);
  assert.equal(extended?.outcome, "EXTENDED");
  assert.deepEqual(await client.ack([{ token, as: "complete" }]), [{ outcome: "SETTLED" }]);
  assert.deepEqual(await client.ack([{ token, as: "complete" }]), [{ outcome: "ALREADY_SETTLED" }]);
  const [unknown] = await client.heartbeat([new TextEncoder().encode("no such lease")]);
  assert.deepEqual(unknown, { outcome: "LOST", reason: "EXPIRED" });
  assert.deepEqual(await client.pull("q", { waitMs: 0 }), []);
  assert.equal(scene.server.seen.settlements.length, 2);
  await assert.rejects(client.pull("q", { waitMs: -1 }), KeyworkError);
});
