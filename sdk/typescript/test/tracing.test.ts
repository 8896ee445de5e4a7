/** Trace context travels from a submit to the handler. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { context, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import {
  Client,
  Fail,
  type Handler,
  type HandlerResult,
  type Job,
  Release,
  Rerun,
  Retry,
  type Tracing,
  Worker,
} from "../src/index.js";
import { openTelemetry } from "../src/opentelemetry.js";
import { FakeServer } from "../src/testing/index.js";
import { Gate } from "./support.js";

/** Runs the job of `q` with the client's tracing, and waits for its end. */
async function runOne(server: FakeServer, client: Client, handler: Handler): Promise<void> {
  const before = server.seen.settlements.length;
  const worker = new Worker({ client, queues: ["q"], handler, logger: { warn: () => undefined } });
  const run = worker.runUntil();
  await server.until("the settlement", (seen) => seen.settlements.length > before);
  worker.drain();
  await run;
}

/** A server, a client that traces, and the spans that have ended. */
async function traced() {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const tracer = provider.getTracer("test");
  const tracing = openTelemetry({ tracer, propagator: new W3CTraceContextPropagator() });
  const server = await FakeServer.start();
  const client = new Client({ endpoints: [server.endpoint], tracing });
  return {
    tracer,
    server,
    client,
    spans: () => exporter.getFinishedSpans(),
    async [Symbol.asyncDispose]() {
      client.close();
      await server.stop();
    },
  };
}

test("a handler runs in a span whose parent is the context of the submit", async () => {
  await using scene = await traced();
  const { server, client, tracer } = scene;
  const parent = await tracer.startActiveSpan("request", async (span) => {
    await client.submit({ queue: "q", key: "a", attributes: { color: "red" } });
    span.end();
    return span.spanContext();
  });
  const attributes = server.outstanding("q", "a")?.attributes;
  assert.equal(attributes?.["traceparent"], `00-${parent.traceId}-${parent.spanId}-01`);
  assert.equal(attributes?.["color"], "red");

  let active: string | undefined;
  let seen: Job | undefined;
  await runOne(server, client, (_context, job) => {
    seen = job;
    active = trace.getActiveSpan()?.spanContext().traceId;
  });
  assert.equal(active, parent.traceId, "the span is active in the handler");
  assert.deepEqual(
    scene.spans().map(({ name }) => name),
    ["request", "process q"],
    "a submit has no span of its own",
  );
  const span = scene.spans()[1];
  assert.equal(span?.kind, SpanKind.CONSUMER);
  assert.equal(span?.spanContext().traceId, parent.traceId);
  assert.equal(span?.parentSpanContext?.spanId, parent.spanId);
  assert.deepEqual(span?.attributes, {
    "messaging.system": "keywork",
    "messaging.operation.type": "process",
    "messaging.destination.name": "q",
    "messaging.message.id": seen?.id,
    "keywork.key": "a",
    "keywork.attempt": 1,
    "keywork.fencing_number": Number(seen?.fencingNumber),
    "keywork.outcome": "complete",
  });
  assert.deepEqual([span?.status.code, span?.events], [SpanStatusCode.UNSET, []]);
});

test("a submit that has a context already keeps it", async () => {
  await using scene = await traced();
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  await scene.tracer.startActiveSpan("request", async (span) => {
    await scene.client.submit({ queue: "q", key: "a", attributes: { traceparent } });
    span.end();
  });
  assert.deepEqual(scene.server.outstanding("q", "a")?.attributes, { traceparent });
});

test("a span tells how its handler ended", async () => {
  const { ERROR, UNSET } = SpanStatusCode;
  const broke = new Error("broke");
  const ends: [() => HandlerResult, string, unknown, unknown][] = [
    [() => Promise.reject(broke) as never, "retry", { code: ERROR, message: "broke" }, "broke"],
    [() => new Retry({ because: "later" }), "retry", { code: ERROR, message: "later" }, undefined],
    [() => new Fail("no use"), "fail", { code: ERROR, message: "no use" }, undefined],
    [() => new Release(), "release", { code: UNSET }, undefined],
    [() => new Rerun(), "rerun", { code: UNSET }, undefined],
  ];
  for (const [end, outcome, status, exception] of ends) {
    await using scene = await traced();
    await scene.client.submit({ queue: "q", key: "a" });
    let runs = 0;
    await runOne(scene.server, scene.client, () => (runs++ === 0 ? end() : undefined));
    const [span] = scene.spans();
    assert.equal(span?.attributes["keywork.outcome"], outcome);
    assert.deepEqual(span?.status, status);
    assert.equal(span?.events[0]?.attributes?.["exception.message"], exception);
  }
});

test("a handler that was told to stop has not failed", async () => {
  await using scene = await traced();
  await scene.client.submit({ queue: "q", key: "a" });
  const started = new Gate();
  const worker = new Worker({
    client: scene.client,
    queues: ["q"],
    shutdownGraceMs: 0,
    handler: ({ signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason), { once: true });
        started.open();
      }),
  });
  const run = worker.runUntil();
  await started.opened;
  worker.drain();
  await run;
  const [span] = scene.spans();
  assert.equal(span?.attributes["keywork.outcome"], "release");
  assert.deepEqual([span?.status.code, span?.events], [SpanStatusCode.UNSET, []]);
});

test("whatever tracing does wrong, the handler runs once", async () => {
  const broken: Tracing["run"][] = [
    () => Promise.reject(new Error("before")),
    (_job, handler) => handler().then(() => Promise.reject(new Error("after"))),
    (_job, handler) => Promise.all([handler(), handler()]),
  ];
  for (const run of broken) {
    await using server = await FakeServer.start();
    await using client = new Client({ endpoints: [server.endpoint], tracing: { inject: () => ({}), run } });
    await client.submit({ queue: "q", key: "a" });
    let runs = 0;
    await runOne(server, client, () => {
      runs += 1;
    });
    assert.deepEqual([runs, server.seen.settled("complete")], [1, ["a"]]);
  }
});

test("a plain object does for tracing, in submitMany too", async () => {
  const seen: string[] = [];
  const tracing: Tracing = {
    inject: () => ({ trace: "t1" }),
    run: (job, handler) => {
      seen.push(`${job.key}: ${job.attributes["trace"]}`);
      return handler();
    },
  };
  await using server = await FakeServer.start();
  await using client = new Client({ endpoints: [server.endpoint], tracing });
  await client.submitMany([{ queue: "q", key: "a" }]);
  await runOne(server, client, () => undefined);
  assert.deepEqual(seen, ["a: t1"]);
});
