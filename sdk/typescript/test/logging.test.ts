/** What a worker logs: enough to understand it without listening to its events. */
import assert from "node:assert/strict";
import { createServer, type Socket } from "node:net";
import { mock, test } from "node:test";
import { Client, Fail, Retry, Worker, type WorkerEvent } from "../src/index.js";
import { WorkerLog } from "../src/worker/logger.js";
import { type Line, Log, loggerTo, Scene, within } from "./support.js";

function texts(lines: Log<Line>, level: Line["level"]): string[] {
  return lines.all.filter((line) => line.level === level).map(({ text }) => text);
}

test("a worker whose server is not there says so within a second, and names it", async () => {
  await using client = new Client("http://127.0.0.1:1");
  const lines = new Log<Line>();
  const worker = new Worker({ client, queues: ["q"], handler: () => undefined, logger: loggerTo(lines) });
  const before = performance.now();
  const run = worker.runUntil();
  const [line] = await lines.until("a warning", (all) => all.some(({ level }) => level === "warn"));
  assert(performance.now() - before < 1_000);
  assert.deepEqual([line?.level, line?.text], ["debug", "keywork: connecting to http://127.0.0.1:1"]);
  assert.match(texts(lines, "warn")[0] ?? "", /http:\/\/127\.0\.0\.1:1 cannot be reached: .*ECONNREFUSED/);
  worker.drain();
  await within("the end", run);
});

test("a server that says nothing at all is told of before the try has failed", async () => {
  const sockets: Socket[] = [];
  const silent = createServer((socket) => sockets.push(socket.on("error", () => undefined)));
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const address = silent.address();
  assert(typeof address === "object" && address !== null);
  await using client = new Client(`http://127.0.0.1:${address.port}`);
  const lines = new Log<Line>();
  const worker = new Worker({ client, queues: ["q"], handler: () => undefined, logger: loggerTo(lines) });
  const run = worker.runUntil();
  await lines.until("a warning", (all) => all.some(({ level }) => level === "warn"));
  assert.match(texts(lines, "warn")[0] ?? "", new RegExp(`no answer yet from .*:${address.port}`));
  worker.releaseAll();
  await assert.rejects(within("the end", run), { kind: "FORCED" });
  silent.close();
  for (const socket of sockets) socket.destroy();
});

test("the way of a worker is logged, with and without a listener", async () => {
  await using scene = await Scene.with();
  const lines = new Log<Line>();
  const { client } = scene;
  const worker = new Worker({ client, queues: ["q"], handler: () => undefined, logger: loggerTo(lines) });
  const run = worker.runUntil();
  await lines.until("ready", (all) => all.some(({ text }) => text.includes("ready")));
  worker.drain();
  await within("the end", run);
  const levels = lines.all.map(({ level, text }) => [level, text.split(/[: ]+/)[1]]);
  const way = [
    ["debug", "connecting"],
    ["info", "ready"],
    ["info", "draining"],
    ["info", "stopped"],
  ];
  assert.deepEqual(levels, way);
});

test("one outage is one warning, and another in each half minute", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const hrtime = mock.method(process, "hrtime", () => [seconds, 0]);
  let seconds = 0;
  const lines = new Log<Line>();
  const log = new WorkerLog(loggerTo(lines));
  const degraded: WorkerEvent = { type: "degraded", endpoint: "http://a", error: "gone" };
  const warnings = () => texts(lines, "warn").length;
  log.event(degraded);
  seconds = 29;
  log.event(degraded);
  assert.equal(warnings(), 1);
  assert.match(texts(lines, "warn")[0] ?? "", /http:\/\/a: gone/);
  seconds = 31;
  log.event(degraded);
  assert.equal(warnings(), 2);
  log.event({ type: "ready" });
  log.event(degraded);
  assert.equal(warnings(), 3, "the first of another outage");
  hrtime.mock.restore();
  mock.timers.reset();
});

const ways = {
  submit: (client: Client) => assert.rejects(client.submit({ queue: "q", key: "a" })),
  submitBatch: (client: Client) => assert.rejects(client.submitBatch([{ queue: "q", key: "a" }])),
  submitMany: async (client: Client) => {
    const [answer] = await client.submitMany([{ queue: "q", key: "a" }]);
    assert(answer?.error);
  },
};

for (const [way, submit] of Object.entries(ways)) {
  test(`${way}: submits that are tried again say so once`, async () => {
    const lines = new Log<Line>();
    const logger = loggerTo(lines);
    await using client = new Client({
      endpoints: ["http://127.0.0.1:1"],
      submitDeadlineMs: 1_000,
      logger,
    });
    await submit(client);
    await submit(client);
    assert.deepEqual([lines.all.length, lines.all[0]?.level], [1, "warn"]);
    const wanted =
      /^keywork: submitting failed, trying again for up to 1 s: http:\/\/127\.0\.0\.1:1 cannot be reached: .*ECONNREFUSED/;
    assert.match(lines.all[0]?.text ?? "", wanted);
  });
}

for (const fault of ["unavailable", "broken"] as const) {
  test(`a stream whose offers are made again says so: ${fault}`, async () => {
    await using scene = await Scene.with();
    const lines = new Log<Line>();
    await using client = new Client({ endpoints: [scene.server.endpoint], logger: loggerTo(lines) });
    scene.server.script.submitFaults.push(fault);
    const [answer] = await client.submitMany([{ queue: "q", key: "a" }]);
    assert(answer?.result);
    const [text, ...rest] = texts(lines, "warn");
    assert(
      text?.includes("submitting failed, trying again for up to 30 s") &&
        text.includes(scene.server.endpoint),
    );
    assert.deepEqual(rest, []);
  });
}

test("a submit that is refused, or that comes too late, is its caller's to tell of", async () => {
  await using scene = await Scene.with();
  const lines = new Log<Line>();
  const logger = loggerTo(lines);
  await using client = new Client({ endpoints: [scene.server.endpoint], logger });
  await assert.rejects(client.submit({ queue: "q", key: "" }));
  await using away = new Client({ endpoints: ["http://127.0.0.1:1"], submitDeadlineMs: 50, logger });
  await ways.submit(away);
  assert.deepEqual(lines.all, []);
});

test("a logger that throws does not end a submit, and a worker logs where its client does", async () => {
  await using scene = await Scene.with();
  let called = 0;
  const logger = {
    warn: () => {
      called += 1;
      throw new Error("no disk");
    },
  };
  await using client = new Client({ endpoints: [scene.server.endpoint], logger });
  scene.server.script.submitFaults.push("unavailable");
  assert((await client.submit({ queue: "q", key: "a" })).accepted);
  assert.equal(called, 1);
  const worker = new Worker({
    client,
    queues: ["q"],
    handler: (_context, { attempt }) => {
      if (attempt === 1) throw new Error("broke");
    },
  });
  const run = worker.runUntil();
  await scene.server.until("the end", (seen) => seen.settled("complete").includes("a"));
  worker.drain();
  await within("the end", run);
  assert.equal(called, 2);
});

test("a handler's error is logged with its job and its stack, and what it was told to do is not", async () => {
  await using scene = await Scene.with();
  await scene.submit("a");
  const broke = new Error("broke");
  const running = scene.start({
    handler: (_context, { attempt }) => {
      if (attempt === 1) throw broke;
    },
  });
  await scene.server.until("the end", (seen) => seen.settled("complete").includes("a"));
  const [line] = scene.lines.all.filter(({ level }) => level === "warn");
  assert.match(line?.text ?? "", /q\/a failed at attempt 1 of 10, the job is tried again: broke$/);
  assert.equal(line?.error, broke);
  await running.drain();

  await using stopped = await Scene.with();
  await stopped.submit("b");
  const stopping = stopped.start({ shutdownGraceMs: 0 });
  await stopped.untilStarted(1);
  await stopping.drain();
  assert.deepEqual(stopped.server.seen.settled("release"), ["b"]);
  assert.deepEqual(texts(stopped.lines, "warn"), [], "it threw because it was stopped");
});

test("an error that ends a job is logged as its end", async () => {
  await using scene = await Scene.with();
  await scene.client.submit({ queue: "q", key: "a", maxAttempts: 2 });
  const running = scene.start({
    handler: () => {
      throw new Error("broke");
    },
  });
  await scene.server.until("the end", () => scene.server.dead("q").length === 1);
  await running.drain();
  assert.deepEqual(texts(scene.lines, "warn"), [
    "keywork: the handler of q/a failed at attempt 1 of 2, the job is tried again: broke",
    "keywork: the handler of q/a failed at attempt 2 of 2, it is a dead letter: broke",
  ]);
});

for (const how of ["thrown", "returned"]) {
  test(`a death that a handler asks for is logged: ${how}`, async () => {
    await using scene = await Scene.with();
    await scene.submit("fail");
    await scene.client.submit({ queue: "q", key: "retry", maxAttempts: 2 });
    const running = scene.start({
      handler: (_context, { key }) => {
        const outcome =
          key === "fail" ? new Fail("no such user") : new Retry({ delayMs: 0, because: "busy" });
        if (how === "thrown") throw outcome;
        return outcome;
      },
    });
    await scene.server.until("the end", () => scene.server.dead("q").length === 2);
    await running.drain();
    assert.deepEqual(texts(scene.lines, "warn").sort(), [
      "keywork: the handler of q/fail failed at attempt 1 of 10, it is a dead letter: no such user",
      "keywork: the handler of q/retry failed at attempt 2 of 2, it is a dead letter: busy",
    ]);
  });
}

test("a death that is asked for after the lease was lost is none", async () => {
  await using scene = await Scene.with();
  await scene.submit("a");
  const started = new Log<string>();
  const running = scene.start({
    handler: async ({ signal }, { key }) => {
      started.add(key);
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      return new Fail("too late");
    },
  });
  await started.until("the handler", (all) => all.length === 1);
  scene.server.loseLease("q", "a", { reason: "CANCELLED" });
  await running.drain();
  assert.deepEqual(texts(scene.lines, "warn"), ["keywork: lost the lease of q/a: CANCELLED"]);
});

test("a lost lease and a refused settlement are warnings that name the job", async () => {
  await using scene = await Scene.with();
  await scene.submit("a", "b");
  const running = scene.start();
  await scene.untilStarted(2);
  scene.server.loseLease("q", "a", { reason: "CANCELLED" });
  await scene.untilCancelled("a", "JOB_CANCELLED");
  scene.server.script.settlementAnswers.push("REJECTED");
  scene.openGate();
  await scene.server.until("the settlements", (seen) => seen.settlements.length >= 2);
  await running.drain();
  const [lost, refused, ...rest] = texts(scene.lines, "warn");
  assert.match(lost ?? "", /lost the lease of q\/a: CANCELLED/);
  assert.match(refused ?? "", /settlement of q\/b was refused/);
  assert.deepEqual(rest, []);
});

test("handlers that are left behind are logged with their number", async () => {
  await using scene = await Scene.with();
  await scene.submit("a", "b");
  const started = new Log<string>();
  const running = scene.start({
    shutdownGraceMs: 0,
    cancelGraceMs: 0,
    handler: (_context, { key }) => {
      started.add(key);
      return new Promise<void>(() => undefined);
    },
  });
  await started.until("both", (all) => all.length === 2);
  await running.drain();
  assert.match(texts(scene.lines, "warn").at(-1) ?? "", /stopped, and left behind 2 handlers/);
});

test("the error that run throws is not logged as well", async () => {
  await using scene = await Scene.with();
  scene.server.script.refuseSessions.push({ code: "PERMISSION_DENIED", message: "no" });
  await assert.rejects(scene.start().end(), { kind: "REFUSED" });
  assert.deepEqual(
    scene.lines.all.filter(({ level }) => level === "warn" || level === "error"),
    [],
  );
});

test("a logger and a listener that throw end nothing, and the listener is told of once", async () => {
  await using scene = await Scene.with();
  const lines = new Log<Line>();
  const broken = () => {
    throw new Error("no disk");
  };
  const wrong = scene.start({ logger: { info: broken, warn: broken, debug: broken } });
  const rejecting = scene.start({
    queues: ["r"],
    logger: loggerTo(lines),
    onEvent: async () => Promise.reject(new Error("no metrics")),
  });
  scene.openGate();
  await scene.client.submit({ queue: "r", key: "b" });
  await scene.submit("a");
  await scene.server.until("both", (seen) => seen.settled("complete").length === 2);
  await Promise.all([wrong.drain(), rejecting.drain()]);
  const warnings = lines.all.filter(({ level }) => level === "warn");
  assert.deepEqual(
    warnings.map(({ error }) => String(error)),
    ["Error: no metrics"],
  );
});

test("without a logger only warnings are written, to console.warn", async () => {
  const written = { warn: mock.method(console, "warn", () => undefined), log: mock.method(console, "log") };
  try {
    await using scene = await Scene.with();
    await scene.submit("a");
    const broke = new Error("broke");
    const { client } = scene;
    const handler = (_context: unknown, { attempt }: { attempt: number }) => {
      if (attempt === 1) throw broke;
    };
    const worker = new Worker({ client, queues: ["q"], handler });
    const run = worker.runUntil();
    await scene.server.until("the end", (seen) => seen.settled("complete").includes("a"));
    worker.drain();
    await within("the end", run);
    assert.equal(written.warn.mock.callCount(), 1);
    assert.equal(written.warn.mock.calls[0]?.arguments[1], broke);
    assert.equal(written.log.mock.callCount(), 0);
  } finally {
    mock.restoreAll();
  }
});
