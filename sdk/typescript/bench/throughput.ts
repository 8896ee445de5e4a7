// Jobs a second through one worker process with an empty handler: node build/bench/throughput.js ENDPOINT [JOBS] [CONCURRENCY]
import { setTimeout as sleep } from "node:timers/promises";
import { Client, Worker } from "@keywork/sdk";

const [endpoint = "http://127.0.0.1:50051", jobs = "20000", concurrency = "500"] = process.argv.slice(2);
await using client = new Client(endpoint);
const queue = `bench-${Date.now()}`;
const payload = new Uint8Array(256);
const count = Number(jobs);

const submitting = performance.now();
await client.submitMany(
  Array.from({ length: count }, (_, number) => ({ queue, key: `k-${number}`, payload })),
);
const submitted = performance.now() - submitting;

const worker = new Worker({
  client,
  queues: [queue],
  concurrency: Number(concurrency),
  handler: () => undefined,
});
const run = worker.runUntil();
while (worker.counts().started === 0) await sleep(1);
const [working, cpu] = [performance.now(), process.cpuUsage()];
while (worker.counts().settled < count) await sleep(5);
const [worked, { user, system }] = [performance.now() - working, process.cpuUsage(cpu)];
worker.drain();
await run;
const rate = (ms: number) => Math.round((count / ms) * 1_000);
const micros = Math.round((user + system) / count);
console.log(
  `submitted ${rate(submitted)} a second, ran and settled ${rate(worked)} a second, ${micros} µs of CPU each`,
);
