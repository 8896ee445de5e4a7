// How a program that uses Keywork is tested: a handler by itself, and the whole against a server in the process.
import assert from "node:assert/strict";
import { type Context, Fail, type Job, Worker } from "@keywork/sdk";
import { FakeServer, job, runOnce } from "@keywork/sdk/testing";

async function handler(_context: Context, job: Job): Promise<void> {
  if (job.payload.length === 0) throw new Fail("the payload is empty");
}

const outcome = await runOnce(handler, job("mail", "user-7"));
assert.deepEqual(outcome, { as: "fail", reason: "the payload is empty" });

await using server = await FakeServer.start();
await using client = server.client();
await client.submit({ queue: "mail", key: "user-7", payload: "hello" });

const worker = new Worker({ client, queues: ["mail"], handler });
const run = worker.runUntil();
await server.until("the job completes", (seen) => seen.settled("complete").includes("user-7"));
worker.drain();
await run;
console.log("tested");
