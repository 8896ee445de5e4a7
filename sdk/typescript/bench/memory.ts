// Memory of a process that holds many leases: node build/bench/memory.js ENDPOINT [LEASES]
import { setTimeout as sleep } from "node:timers/promises";
import { Client, Worker } from "@keywork/sdk";

const [endpoint = "http://127.0.0.1:50051", leases = "1000"] = process.argv.slice(2);
await using client = new Client(endpoint);
const queue = `bench-${Date.now()}`;
const concurrency = Number(leases);
const mebibytes = () => Math.round(process.memoryUsage.rss() / 1_048_576);

const payload = new Uint8Array(256);
await client.submitMany(
  Array.from({ length: concurrency }, (_, number) => ({ queue, key: `k-${number}`, payload })),
);
const before = mebibytes();
const stop = new AbortController();
const stopped = new Promise((resolve) => stop.signal.addEventListener("abort", resolve, { once: true }));
const handler = async () => {
  await stopped;
};
const worker = new Worker({ client, queues: [queue], concurrency, handler });
const run = worker.runUntil();
while (worker.counts().started < concurrency) await sleep(5);
// Some heartbeats.
await sleep(12_000);
console.log(`${before} MiB before the worker, ${mebibytes()} MiB with ${leases} held leases`);
stop.abort();
worker.drain();
await run;
