/** A submit is answered once, with a typed outcome, whatever happens on the way. */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { inspect } from "node:util";
import { Core } from "../src/client/core.js";
import { Patience } from "../src/client/patience.js";
import { unanswered } from "../src/errors.js";
import {
  Client,
  type ClientOptions,
  type Handler,
  KeyworkError,
  reasons,
  type Submit,
  type SubmitInterceptor,
  Worker,
  type WorkerOptions,
} from "../src/index.js";
import { FakeServer } from "../src/testing/index.js";
import { accepted, Gate, Scene, within } from "./support.js";

async function failure(call: Promise<unknown>): Promise<KeyworkError> {
  const error: unknown = await call.then(
    () => assert.fail("an error was expected"),
    (error: unknown) => error,
  );
  assert(error instanceof KeyworkError, String(error));
  return error;
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

test("a busy key is an outcome that names its job", async () => {
  await using scene = await Scene.with();
  const first = await scene.client.submit({ queue: "q", key: "a", payload: "v1" });
  assert.deepEqual([first.outcome, first.accepted], ["CREATED", true]);
  const second = await scene.client.submit({ queue: "q", key: "a", payload: "v2" });
  assert.deepEqual([second.outcome, second.accepted], ["ALREADY_OUTSTANDING", false]);
  assert.deepEqual([second.job.id, second.job.state], [first.job.id, "QUEUED"]);
  const job = await scene.client.getJob("q", "a");
  assert.equal(job?.text(), "v1");
  assert.equal(await scene.client.getJob("q", "free"), undefined);
});

test("a submit whose answer is lost is tried again with the same id", async () => {
  await using scene = await Scene.with();
  scene.server.script.submitFaults.push("unavailable", "answer_lost");
  const { outcome } = await scene.client.submit({ queue: "q", key: "a" });
  assert.equal(outcome, "CREATED", "it is this call's own job");
  const { submits } = scene.server.seen;
  assert.deepEqual([submits.length, new Set(submits).size], [3, 1]);
});

test("the caller's request id is kept and found again", async () => {
  await using scene = await Scene.with();
  const submit = { queue: "q", key: "a", requestId: randomUUID() };
  assert.equal((await scene.client.submit(submit)).job.id, submit.requestId);
  assert.equal((await scene.client.submit(submit)).outcome, "DUPLICATE");
});

test("a submit gives up at its deadline and says that it may have counted", async () => {
  await using server = await FakeServer.start();
  await using client = new Client({ endpoints: [server.endpoint], submitDeadlineMs: 300 });
  server.script.submitFaults.push("answer_lost", ...Array.from({ length: 50 }, () => "unavailable" as const));
  const error = await failure(client.submit({ queue: "q", key: "a" }));
  assert.equal(error.reason, reasons.NATS_UNAVAILABLE);
  assert(error.isRetryable());
  assert(!error.hasNoSideEffects(), "the first try may have stored it");
});

const ways = {
  submit: (client: Client) => failure(client.submit({ queue: "q", key: "a" })),
  submitBatch: (client: Client) => failure(client.submitBatch([{ queue: "q", key: "a" }])),
  submitMany: async (client: Client) => (await client.submitMany([{ queue: "q", key: "a" }]))[0]?.error,
};

for (const [way, submit] of Object.entries(ways)) {
  test(`without a server a submit uses its deadline up: ${way}`, async () => {
    await using client = new Client({ endpoints: ["http://127.0.0.1:1"], submitDeadlineMs: 2_000 });
    const before = performance.now();
    assert.equal((await submit(client))?.code, "UNAVAILABLE");
    const took = performance.now() - before;
    assert(took >= 1_800 && took <= 2_300, `it took ${took} ms`);
  });
}

test("an offer that fails again and again uses its deadline up", async () => {
  await using server = await FakeServer.start();
  await using client = new Client({ endpoints: [server.endpoint], submitDeadlineMs: 1_000 });
  const away = { code: "UNAVAILABLE", retryAfterMs: 400 } as const;
  server.script.submitFaults.push(...Array.from({ length: 50 }, () => away));
  const before = performance.now();
  assert.equal((await ways.submitMany(client))?.code, "UNAVAILABLE");
  assert(performance.now() - before >= 900);
});

test("a last try that ran out of time does not hide what the one before met", async () => {
  await using client = new Client({ endpoints: ["http://127.0.0.1:1"], submitDeadlineMs: 200 });
  const patience = new Patience(new Core(client.options), undefined);
  const met = unanswered("away", "UNAVAILABLE");
  const ranOut = unanswered("no answer");
  while (patience.leftMs() > 50) await patience.after(met, 0);
  assert.equal(await failure(patience.after(ranOut, 0)), met);
});

test("a server's RetryInfo is heeded", async () => {
  await using scene = await Scene.with();
  scene.server.script.submitFaults.push({ code: "UNAVAILABLE", retryAfterMs: 600, sideEffects: "none" });
  const before = performance.now();
  await scene.client.submit({ queue: "q", key: "a" });
  assert(performance.now() - before >= 595);
});

test("an outage of one server turns to the next", async () => {
  await using server = await FakeServer.start();
  await using client = new Client({ endpoints: ["http://127.0.0.1:1", server.endpoint] });
  assert.equal((await client.submit({ queue: "q", key: "a" })).outcome, "CREATED");
  assert.equal((await client.getQueue("q")).stats.outstanding, 1);
});

test("a connection that breaks under a submit is mended", async () => {
  await using scene = await Scene.with();
  await scene.submit("a");
  scene.server.breakConnections();
  await scene.submit("b");
});

test("a refusal names the field and is not retried", async () => {
  await using scene = await Scene.with();
  const error = await failure(scene.client.submit({ queue: "q", key: "k".repeat(513) }));
  assert.deepEqual([error.code, error.reason], ["INVALID_ARGUMENT", reasons.INVALID_FIELD]);
  assert.equal(error.violations[0]?.field, "key");
  assert(!error.isRetryable() && error.hasNoSideEffects());
  assert.equal(scene.server.seen.submits.length, 1);
});

test("what this side can see is wrong is refused before anything is sent", async () => {
  await using scene = await Scene.with();
  const wrong: [unknown, string][] = [
    [{ maxAttempts: -1 }, "max_attempts"],
    [{ delayMs: Number.NaN }, "delay"],
    [{ delayMs: 1, startAt: new Date() }, "start_at"],
    [{ startAt: "tomorrow" }, "start_at"],
    [{ expiresAt: new Date("no date") }, "expires_at"],
    [{ backoff: { initialMs: -1, maxMs: 1 } }, "backoff.initial"],
    [{ payload: { an: "object" } }, "payload"],
    [{ key: 7 }, "key"],
    [{ key: "\ud800" }, "key"],
    [{ queue: undefined }, "queue"],
    [{ attributes: { color: undefined } }, "attributes"],
    [{ onConflict: "IGNORE" }, "on_conflict"],
  ];
  for (const [part, field] of wrong) {
    const submit = { queue: "q", key: "a", ...(part as Partial<Submit>) };
    const error = await failure(scene.client.submit(submit));
    const [answer] = await scene.client.submitMany([submit]);
    for (const refusal of [error, answer?.error]) {
      assert.deepEqual([refusal?.code, refusal?.reason], ["INVALID_ARGUMENT", reasons.INVALID_FIELD]);
      assert.deepEqual(
        refusal?.violations.map((violation) => violation.field),
        [field],
      );
      const [violation] = refusal?.violations ?? [];
      assert.equal(refusal?.message.split(violation?.description ?? "").length, 2, "told once");
      assert(refusal?.hasNoSideEffects() && !refusal.isRetryable());
    }
  }
  assert.equal(scene.server.seen.submits.length, 0);
});

test("what cannot be written as the contract has it is no broken connection", async () => {
  await using scene = await Scene.with();
  const error = await failure(scene.client.heartbeat(["a token"] as unknown as Uint8Array[]));
  assert.deepEqual([error.code, error.isRetryable()], ["INVALID_ARGUMENT", false]);
  assert.deepEqual([error.reason, error.violations[0]?.field], [reasons.INVALID_FIELD, "lease_tokens"]);
  assert(error.hasNoSideEffects());
});

test("a client's options are refused where it is made, by their names", () => {
  const wrong: [ClientOptions, ErrorConstructor, RegExp][] = [
    [{ endpoints: [] }, RangeError, /endpoints .* at least one/],
    [{ endpoints: ["localhost:50051"] }, TypeError, /endpoints .*localhost:50051.*does not begin with/],
    [{ endpoints: ["http://a:1/path"] }, TypeError, /endpoints .*more than a host/],
    [{ endpoints: "http://a" as unknown as string[] }, TypeError, /endpoints must be an array.*http:\/\/a/],
    [{ headers: { "bad name": "x" } }, TypeError, /headers .*bad name/],
    [{ submitDeadlineMs: 0 }, RangeError, /submitDeadlineMs .*more than 0.*not 0/],
    [{ submitDeadlineMs: "5" as unknown as number }, RangeError, /submitDeadlineMs .*not 5/],
    [{ callTimeoutMs: -1 }, RangeError, /callTimeoutMs .*not -1/],
    [{ callTimeoutMs: Number.POSITIVE_INFINITY }, RangeError, /callTimeoutMs .*2147483647.*not Infinity/],
    [{ interceptors: [{}] as unknown as SubmitInterceptor[] }, TypeError, /interceptors\[0\] .*an object/],
    [{ tls: {} }, TypeError, /tls .*https/],
    [{ endpoints: ["https://a"], tls: { ca: "ca.pem" } }, TypeError, /tls\.ca .*PEM/],
    [{ endpoints: ["https://a"], tls: { cert: "-----BEGIN " } }, TypeError, /tls\.cert and tls\.key/],
    [
      { endpoints: ["https://a"], tls: { ca: "-----BEGIN CERTIFICATE-----\n?" } },
      TypeError,
      /tls .*readable/,
    ],
  ];
  for (const [options, kind, message] of wrong) {
    assert.throws(
      () => new Client(options),
      (error: unknown) => error instanceof kind && message.test(error.message),
      `${message}`,
    );
  }
});

test("a password is not repeated", () => {
  assert.throws(
    () => new Client("http://me:hunter2@localhost"),
    (error: unknown) => error instanceof TypeError && !error.message.includes("hunter2"),
  );
  assert.throws(
    () => new Client({ headers: { authorization: "hunter2\nhunter2" } }),
    (error: unknown) => error instanceof TypeError && !inspect(error).includes("hunter2"),
  );
});

test("a worker's options are refused where it is made, by their names", async () => {
  await using client = new Client("http://127.0.0.1:1");
  const good = { client, queues: ["q"], handler: () => undefined };
  const wrong: [Partial<WorkerOptions>, ErrorConstructor, RegExp][] = [
    [{ concurrency: 0 }, RangeError, /concurrency .*1 to 100000, not 0/],
    [{ concurrency: 100_001 }, RangeError, /concurrency .*not 100001/],
    [{ concurrency: 1.5 }, RangeError, /concurrency .*not 1.5/],
    [{ concurrency: Number("many") }, RangeError, /concurrency .*not NaN/],
    [{ queues: [] }, RangeError, /queues .*at least one/],
    [{ queues: ["a", { queue: "a", weight: 2 }] }, RangeError, /queues .*not a twice/],
    [{ queues: ["a", { queue: "b", weight: 101 }] }, RangeError, /queues\[1\]\.weight .*1 to 100, not 101/],
    [{ queues: "q" as unknown as string[] }, TypeError, /queues must be an array/],
    [{ queues: [7] as unknown as string[] }, TypeError, /queues\[0\] .*not 7/],
    [{ shutdownGraceMs: -1 }, RangeError, /shutdownGraceMs .*not -1/],
    [{ cancelGraceMs: Number.NaN }, RangeError, /cancelGraceMs .*not NaN/],
    [{ workerId: "" }, RangeError, /workerId .*1 to 256 bytes, not 0/],
    [{ handler: undefined as unknown as Handler }, TypeError, /handler must be a function, not undefined/],
    [{ client: {} as Client }, TypeError, /client must be a Client, not an object/],
  ];
  for (const [part, kind, message] of wrong) {
    assert.throws(
      () => new Worker({ ...good, ...part }),
      (error: unknown) => error instanceof kind && message.test(error.message),
      `${message}`,
    );
  }
});

test("an error of one of many is told once, and its violation has the text alone", async () => {
  await using scene = await Scene.with();
  const one = await failure(scene.client.submit({ queue: "q", key: "" }));
  const [stream] = await scene.client.submitMany([{ queue: "q", key: "" }]);
  const [batch] = await scene.client.submitBatch([{ queue: "q", key: "" }]);
  for (const { error } of [stream ?? {}, batch ?? {}]) {
    assert.equal(error?.message, one.message);
    assert.deepEqual(error?.violations, one.violations);
  }
});

test("a fake server refuses what servers refuse", async () => {
  await using scene = await Scene.with();
  const wrong: [Partial<Submit>, string][] = [
    [{ queue: "My Queue" }, "queue"],
    [{ requestId: "mine" }, "request_id"],
    [{ maxAttempts: 1_001 }, "max_attempts"],
    [{ payload: new Uint8Array(524_289) }, "payload"],
  ];
  for (const [part, field] of wrong) {
    const error = await failure(scene.client.submit({ queue: "q", key: "a", ...part }));
    assert.deepEqual([error.reason, error.violations[0]?.field], [reasons.INVALID_FIELD, field]);
  }
  await assert.rejects(scene.start({ queues: ["My Queue"] }).end(), { kind: "REFUSED" });
});

test("onConflict FAIL makes a busy key an error", async () => {
  await using scene = await Scene.with();
  await scene.submit("a");
  const error = await failure(scene.client.submit({ queue: "q", key: "a", onConflict: "FAIL" }));
  assert.deepEqual([error.code, error.reason], ["ALREADY_EXISTS", reasons.KEY_BUSY]);
  assert(error.hasNoSideEffects());
});

test("the environment names the servers", async () => {
  await using server = await FakeServer.start();
  process.env["KEYWORK_SERVER"] = `http://127.0.0.1:1, ${server.endpoint}`;
  await using client = Client.fromEnv();
  delete process.env["KEYWORK_SERVER"];
  assert.equal((await client.submit({ queue: "q", key: "a" })).accepted, true);
});

test("no server at all is retryable and without effect", async () => {
  await using client = new Client({ endpoints: ["http://127.0.0.1:1"], submitDeadlineMs: 200 });
  const error = await failure(client.submit({ queue: "q", key: "a" }));
  assert(error.isRetryable() && error.hasNoSideEffects());
  assert.equal(error.code, "UNAVAILABLE");
  assert.match(error.message, /^http:\/\/127\.0\.0\.1:1 cannot be reached: connect ECONNREFUSED/);
});

test("a caller can end a submit", async () => {
  await using client = new Client("http://127.0.0.1:1");
  const reason = new Error("enough");
  const stop = new AbortController();
  const submit = client.submit({ queue: "q", key: "a" }, { signal: stop.signal });
  stop.abort(reason);
  await assert.rejects(within("the end", submit), reason);
});

test("many submits are answered in their order and a bad one spoils no other", async () => {
  await using scene = await Scene.with();
  await scene.submit("busy");
  const keys = ["a", "busy", "", "b"];
  const submits: Submit[] = keys.map((key) => ({ queue: "q", key }));
  submits.push({ queue: "q", key: "c", maxAttempts: 0.5 });
  const answers = await scene.client.submitMany(submits);
  const told = answers.map(({ result, error }) => result?.outcome ?? error?.code);
  assert.deepEqual(told, [
    "CREATED",
    "ALREADY_OUTSTANDING",
    "INVALID_ARGUMENT",
    "CREATED",
    "INVALID_ARGUMENT",
  ]);
});

test("nothing to submit is answered at once, without a server", async () => {
  await using client = new Client("http://127.0.0.1:1");
  assert.deepEqual(await within("nothing", client.submitMany([])), []);
  assert.deepEqual(await within("nothing", client.submitBatch([])), []);
});

test("ten thousand submits fit through a window", async () => {
  await using scene = await Scene.with();
  const submits = Array.from({ length: 10_000 }, (_, number) => ({ queue: "q", key: `k-${number}` }));
  assert.equal(accepted(await scene.client.submitMany(submits)), 10_000);
});

test("a broken submit stream is mended with the same ids", async () => {
  await using scene = await Scene.with();
  scene.server.script.submitFaults.push("broken", "unavailable");
  const submits = Array.from({ length: 20 }, (_, number) => ({ queue: "q", key: `k-${number}` }));
  const answers = await scene.client.submitMany(submits);
  assert.deepEqual(new Set(answers.map(({ result }) => result?.outcome)), new Set(["CREATED"]));
  const { submits: seen } = scene.server.seen;
  assert(seen.length > 20);
  assert.equal(new Set(seen).size, 20);
});

test("a stream of submits is answered as it goes, and ends when its reader leaves", async () => {
  await using scene = await Scene.with();
  let given = 0;
  async function* source(): AsyncGenerator<Submit> {
    for (;;) yield { queue: "q", key: `k-${given++}` };
  }
  const seen: number[] = [];
  for await (const { index, result } of scene.client.submitStream(source())) {
    assert.equal(result?.accepted, true);
    seen.push(index);
    if (seen.length === 6_000) break;
  }
  assert.equal(new Set(seen).size, 6_000);
});

test("a stream that was idle for long is mended like any other", async () => {
  await using server = await FakeServer.start();
  const patience = { callTimeoutMs: 300, submitDeadlineMs: 300 };
  await using client = new Client({ endpoints: [server.endpoint], ...patience });
  const gate = new Gate();
  async function* source(): AsyncGenerator<Submit> {
    yield { queue: "q", key: "a" };
    await gate.opened;
    server.script.submitFaults.push("broken");
    yield { queue: "q", key: "b" };
  }
  const answers: unknown[] = [];
  for await (const { index, result } of client.submitStream(source())) {
    answers.push([index, result?.outcome]);
    // Not to wait for anything: idleness is what is tested.
    if (index === 0) setTimeout(gate.open, 700);
  }
  assert.deepEqual(answers, [
    [0, "CREATED"],
    [1, "CREATED"],
  ]);
});

test("a connection that broke while a stream was idle costs no offer", async () => {
  await using server = await FakeServer.start();
  await using client = new Client({ endpoints: [server.endpoint], submitDeadlineMs: 300 });
  const gate = new Gate();
  async function* source(): AsyncGenerator<Submit> {
    yield { queue: "q", key: "a" };
    await gate.opened;
    yield { queue: "q", key: "b" };
  }
  const outcomes: unknown[] = [];
  for await (const { index, result } of client.submitStream(source())) {
    outcomes.push(result?.outcome);
    if (index === 0) {
      setTimeout(() => server.breakConnections(), 500);
      setTimeout(gate.open, 600);
    }
  }
  assert.deepEqual(outcomes, ["CREATED", "CREATED"]);
});

test("a source that throws ends its stream with that error", async () => {
  await using scene = await Scene.with();
  const broken = new Error("no more");
  async function* source(): AsyncGenerator<Submit> {
    yield { queue: "q", key: "a" };
    throw broken;
  }
  await assert.rejects(within("the end", scene.client.submitMany(source())), broken);
});

test("a stream that no server takes fails every submit at the deadline", async () => {
  await using client = new Client({ endpoints: ["http://127.0.0.1:1"], submitDeadlineMs: 200 });
  const answers = await client.submitMany(["a", "b"].map((key) => ({ queue: "q", key })));
  for (const { error } of answers) assert(error?.isRetryable() && error.hasNoSideEffects());
  assert.equal(answers.length, 2);
});

test("a batch gives one verdict each", async () => {
  await using scene = await Scene.with();
  await scene.submit("busy");
  scene.server.script.submitFaults.push({
    code: "RESOURCE_EXHAUSTED",
    reason: "QUEUE_FULL",
    retryAfterMs: 2_000,
  });
  const keys = ["full", "busy", "", "b"];
  const answers = await scene.client.submitBatch(keys.map((key) => ({ queue: "q", key })));
  const told = answers.map(({ result, error }) => result?.outcome ?? error?.reason);
  assert.deepEqual(told, ["QUEUE_FULL", "ALREADY_OUTSTANDING", "INVALID_FIELD", "CREATED"]);
  const full = answers[0]?.error;
  assert(full !== undefined);
  assert(full.isRetryable() && full.hasNoSideEffects());
  assert.equal(full.retryAfterMs, 2_000);
});

test("a queue that is full is told and left to the caller", async () => {
  await using scene = await Scene.with();
  const full = { code: "RESOURCE_EXHAUSTED", reason: "QUEUE_FULL", retryAfterMs: 2_000 } as const;
  scene.server.script.submitFaults.push(full);
  const error = await failure(scene.client.submit({ queue: "q", key: "a" }));
  assert.deepEqual([error.reason, error.retryAfterMs], [reasons.QUEUE_FULL, 2_000]);
  assert.equal(scene.server.seen.submits.length, 1);
});

test("a delayed job holds its key and starts later", async () => {
  await using scene = await Scene.with();
  await scene.client.submit({ queue: "q", key: "a", delayMs: 300 });
  const again = await scene.client.submit({ queue: "q", key: "a" });
  assert.deepEqual([again.outcome, again.job.state], ["ALREADY_OUTSTANDING", "SCHEDULED"]);
  scene.openGate();
  const before = performance.now();
  const running = scene.start();
  await scene.untilStarted(1);
  assert(performance.now() - before > 150);
  await running.drain();
});

test("interceptors wrap a submit", async () => {
  await using server = await FakeServer.start();
  const outcomes: string[] = [];
  const note: SubmitInterceptor = async (submit, next) => {
    const result = await next({ ...submit, attributes: { by: "note" } });
    outcomes.push(result.outcome);
    return result;
  };
  await using client = new Client({ endpoints: [server.endpoint], interceptors: [note] });
  await client.submit({ queue: "q", key: "a" });
  assert.deepEqual(outcomes, ["CREATED"]);
  assert.deepEqual(server.outstanding("q", "a")?.attributes, { by: "note" });
});

test("dead letters can be seen, redriven and deleted", async () => {
  await using scene = await Scene.with();
  const { client, server } = scene;
  for (const key of ["a", "b", "c"]) await client.submit({ queue: "q", key, maxAttempts: 1, payload: key });
  const running = scene.start({
    handler: () => {
      throw new Error("broke");
    },
  });
  await server.until("all to die", () => server.dead("q").length === 3);
  await running.drain();
  const dead = await collect(client.listDeadJobs("q"));
  assert.deepEqual(dead.map(({ job }) => job.text()).sort(), ["a", "b", "c"]);
  assert.deepEqual([dead[0]?.reason, dead[0]?.job.lastError], ["ATTEMPTS_EXHAUSTED", "broke"]);
  const { deadId, job } = JSON.parse(JSON.stringify(dead[0])) as { deadId: string; job: { payload: string } };
  assert.equal(BigInt(deadId), dead[0]?.deadId);
  assert.equal(Buffer.from(job.payload, "base64").toString(), dead[0]?.job.text());
  const [first, second] = dead.map(({ deadId }) => deadId);
  assert(first !== undefined && second !== undefined);
  const [redriven] = await client.redriveDeadJobs("q", [first]);
  assert.deepEqual([redriven?.deadId, redriven?.result?.outcome], [first, "CREATED"]);
  assert.equal(await client.deleteDeadJobs("q", [second]), 1);
  assert.deepEqual(await client.redriveDeadJobs("q", []), [], "no ids are none, not all");
  assert.deepEqual(await client.redriveDeadJobs("q", { oldest: 0 }), []);
  assert.equal(await client.deleteDeadJobs("q", []), 0);
  assert.equal((await collect(client.listDeadJobs("q"))).length, 1);
  assert.equal(await client.deleteAllDeadJobs("q"), 1);
  assert.equal((await client.redriveDeadJobs("q", { oldest: 5 })).length, 0);
});

test("queues can be looked after", async () => {
  await using scene = await Scene.with();
  const { client } = scene;
  const config = {
    leaseDurationMs: 5_000,
    maxAttempts: 3,
    backoff: { initialMs: 10, maxMs: 1_000 },
    maxDepth: 9,
  };
  const made = await client.createQueue("q", config);
  assert.deepEqual([made.name, made.config], ["q", config]);
  const updated = await client.updateQueue("q", { maxAttempts: 4 });
  assert.deepEqual(updated.config, { ...config, maxAttempts: 4 }, "and nothing else");
  assert.equal((await client.pauseQueue("q")).paused, true);
  assert.equal((await client.resumeQueue("q")).paused, false);
  await scene.submit("a");
  assert.equal((await client.getQueue("q")).stats.outstanding, 1);
  const names = (await collect(client.listQueues())).map(({ name }) => name);
  assert.deepEqual(names, ["q"]);
  assert.equal((await failure(client.deleteQueue("q"))).reason, reasons.QUEUE_NOT_EMPTY);
  assert.equal(await client.purgeQueue("q"), 1);
  await client.deleteQueue("q", { force: true });
  assert.equal((await failure(client.getQueue("q"))).reason, reasons.QUEUE_NOT_FOUND);
});

test("what a server does not serve yet surfaces as exactly that", async () => {
  await using scene = await Scene.with();
  const { client } = scene;
  const submit = { queue: "q", key: "k" };
  const calls = [
    () => client.listJobs("q").next(),
    () => client.cancelJob("q", "a"),
    () => client.watchJobs("q").next(),
    () => client.putSchedule({ name: "s", expression: "@every 30s", submit }),
    () => client.getSchedule("s"),
    () => client.listSchedules().next(),
    () => client.deleteSchedule("s"),
    () => client.submit({ ...submit, onConflict: "RERUN" }),
  ];
  for (const call of calls) {
    const error = await failure(call());
    assert.deepEqual([error.code, error.reason], ["UNIMPLEMENTED", reasons.NOT_SERVED_YET]);
  }
});

test("every RPC can be reached raw", async () => {
  await using scene = await Scene.with();
  const { job } = await scene.client.raw.workQueue.submit({ queue: "q", key: "a" });
  assert.equal(job?.key, "a");
  const { queue } = await scene.client.raw.queueAdmin.getQueue({ name: "q" });
  assert.equal(queue?.stats?.outstanding, 1n);
});
