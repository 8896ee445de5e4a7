/** Trace context travels from a submit to the handler. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { Client, type Tracing, Worker } from "../src/index.js";
import { openTelemetry } from "../src/opentelemetry.js";
import { FakeServer } from "../src/testing/index.js";

/** Runs the job of `q` with the client's tracing, and waits for its end. */
async function runOne(server: FakeServer, client: Client, handler: () => void): Promise<void> {
  const worker = new Worker({ client, queues: ["q"], handler });
  const run = worker.runUntil();
  await server.until("the settlement", (seen) => seen.settlements.length > 0);
  worker.drain();
  await run;
}

test("a handler runs in a span whose parent is the submit's", async () => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const tracer = provider.getTracer("test");
  const tracing = openTelemetry({ tracer, propagator: new W3CTraceContextPropagator() });
  await using server = await FakeServer.start();
  await using client = new Client({ endpoints: [server.endpoint], tracing });

  const parent = await tracer.startActiveSpan("request", async (span) => {
    await client.submit({ queue: "q", key: "a", attributes: { color: "red" } });
    span.end();
    return span.spanContext();
  });
  const attributes = server.outstanding("q", "a")?.attributes;
  assert.equal(attributes?.["traceparent"], `00-${parent.traceId}-${parent.spanId}-01`);
  assert.equal(attributes?.["color"], "red");

  let active: string | undefined;
  await runOne(server, client, () => {
    active = trace.getActiveSpan()?.spanContext().traceId;
    throw new Error("broke");
  });
  assert.equal(active, parent.traceId, "the span is active in the handler");
  const span = exporter.getFinishedSpans().find(({ name }) => name === "process q");
  assert.equal(span?.spanContext().traceId, parent.traceId);
  assert.equal(span?.parentSpanContext?.spanId, parent.spanId);
  assert.equal(span?.attributes["keywork.key"], "a");
  assert.equal(span?.events[0]?.name, "exception");
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
