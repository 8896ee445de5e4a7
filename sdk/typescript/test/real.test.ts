/** Against the real server: what a fake one cannot prove. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Client, Retry, Worker, type WorkerEvent } from "../src/index.js";
import { KEYWORK_BIN, RealServer } from "./server.js";
import { accepted, Gate, Log, within } from "./support.js";

const skip = KEYWORK_BIN === undefined && "KEYWORK_BIN names no server";

/** Runs a test with a server and a client of it. */
function real(
  name: string,
  body: (client: Client, server: RealServer, context: TestContext) => Promise<void>,
) {
  test(name, { skip, timeout: 120_000 }, async (context) => {
    await using server = await RealServer.start();
    await using client = new Client(server.endpoint);
    await body(client, server, context);
  });
}

real("jobs are submitted, run, retried, buried and redriven", async (client) => {
  const ended = new Log<string>();
  await using worker = new Worker({
    client,
    queues: ["q"],
    handler: (_context, job) => {
      ended.add(`${job.key} ${job.attempt} ${job.text()}`);
      if (job.key === "dead" && job.maxAttempts === 1) throw new Error("broke");
      if (job.attempt === 1 && job.key === "again") throw new Retry({ delayMs: 10 });
    },
  });
  const run = worker.runUntil();
  await client.submit({ queue: "q", key: "once", payload: "v" });
  await client.submit({ queue: "q", key: "again", payload: "v" });
  await client.submit({ queue: "q", key: "dead", payload: "v", maxAttempts: 1 });
  await ended.until("all runs", (all) => all.length === 4);
  assert.deepEqual([...ended.all].sort(), ["again 1 v", "again 2 v", "dead 1 v", "once 1 v"]);
  worker.drain();
  await within("the end", run);
  for await (const { deadId, job, reason } of client.listDeadJobs("q")) {
    assert.deepEqual([job.key, reason, job.lastError], ["dead", "ATTEMPTS_EXHAUSTED", "broke"]);
    const [redriven] = await client.redriveDeadJobs("q", [deadId]);
    assert.equal(redriven?.result?.outcome, "CREATED");
  }
  assert.equal((await client.getJob("q", "dead"))?.text(), "v");
});

real("a handler that burns CPU for two lease durations loses no lease", async (client) => {
  await client.createQueue("hot", { leaseDurationMs: 2_000 });
  const runs = new Log<string>();
  const events: WorkerEvent[] = [];
  const burn = (ms: number) => {
    for (const start = performance.now(); performance.now() - start < ms; );
  };
  const handler = (_context: unknown, { key, attempt }: { key: string; attempt: number }) => {
    burn(4_500);
    runs.add(`${key} ${attempt}`);
  };
  const options = {
    client,
    queues: ["hot"],
    handler,
    onEvent: (event: WorkerEvent) => void events.push(event),
  };
  await using worker = new Worker(options);
  const run = worker.runUntil();
  // Each burns for more than two lease durations, the second after waiting for as long.
  await client.submitBatch([
    { queue: "hot", key: "a" },
    { queue: "hot", key: "b" },
  ]);
  await runs.until("both", (all) => all.length === 2);
  worker.drain();
  await within("the end", run);
  assert.deepEqual([...runs.all].sort(), ["a 1", "b 1"]);
  const { started, settled, leasesLost, sessions } = worker.counts();
  assert.deepEqual(
    { started, settled, leasesLost, sessions },
    { started: 2, settled: 2, leasesLost: 0, sessions: 1 },
  );
  assert(!events.some((event) => event.type === "degraded"));
});

real("a killed server is found again, with the leases kept", async (client, server, context) => {
  await client.submit({ queue: "q", key: "a" });
  const events = new Log<WorkerEvent>();
  const started = new Log<bigint>();
  const gate = new Gate();
  await using worker = new Worker({
    client,
    queues: ["q"],
    handler: async (_context, job) => {
      started.add(job.fencingNumber);
      await gate.opened;
    },
    onEvent: (event) => events.add(event),
  });
  const run = worker.runUntil();
  await started.until("the handler", (all) => all.length === 1);
  await server.kill("SIGKILL");
  await events.until("the loss", (all) => all.some((event) => event.type === "degraded"));
  const restart = performance.now();
  await server.start();
  const serves = performance.now();
  await events.until("the return", (all) => all.filter((event) => event.type === "ready").length === 2);
  context.diagnostic(
    `served ${Math.round(serves - restart)} ms after its restart, reconnected by then or ${Math.round(performance.now() - serves)} ms later`,
  );
  gate.open();
  await events.until("the settlement", (all) => all.some((event) => event.type === "settled"));
  worker.drain();
  await within("the end", run);
  assert.equal(started.all.length, 1, "it ran once");
  assert.equal(await client.getJob("q", "a"), undefined, "the key is free");
});

real("a queue that is purged cancels its handlers", async (client, _server, context) => {
  await client.submit({ queue: "q", key: "a" });
  const reasons = new Log<unknown>();
  const started = new Log<string>();
  await using worker = new Worker({
    client,
    queues: ["q"],
    handler: async ({ signal }, job) => {
      started.add(job.key);
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      reasons.add(signal.reason);
    },
  });
  const run = worker.runUntil();
  await started.until("the handler", (all) => all.length === 1);
  const before = performance.now();
  await client.purgeQueue("q");
  const [reason] = await reasons.until("the cancellation", (all) => all.length === 1);
  const took = performance.now() - before;
  context.diagnostic(`cancelled ${Math.round(took)} ms after the purge was asked for`);
  assert(took < 1_000);
  assert.match(String(reason), /JOB_CANCELLED/);
  worker.drain();
  await within("the end", run);
});

real("a drain with a hundred running jobs settles them all", async (client, _server, context) => {
  const keys = Array.from({ length: 100 }, (_, number) => ({ queue: "q", key: `k-${number}` }));
  assert.equal(accepted(await client.submitMany(keys)), 100);
  const started = new Log<string>();
  const gate = new Gate();
  await using worker = new Worker({
    client,
    queues: ["q"],
    concurrency: 100,
    handler: async (_context, job) => {
      started.add(job.key);
      await gate.opened;
    },
  });
  const run = worker.runUntil();
  await started.until("all handlers", (all) => all.length === 100);
  worker.drain();
  const before = performance.now();
  gate.open();
  await within("the end", run);
  context.diagnostic(`drained 100 jobs in ${Math.round(performance.now() - before)} ms`);
  assert.equal(worker.counts().settled, 100);
  assert.equal((await client.getQueue("q")).stats.outstanding, 0);
});

real("what the server does not serve yet surfaces as exactly that", async (client) => {
  for (const call of [() => client.listSchedules().next(), () => client.getSchedule("s")]) {
    await assert.rejects(call(), { name: "KeyworkError", code: "UNIMPLEMENTED", reason: "NOT_SERVED_YET" });
  }
});
