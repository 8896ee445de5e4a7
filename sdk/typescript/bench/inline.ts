// What the lease thread costs: as throughput.ts, with the thread's code on the main thread. Of no other use.
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "../src/index.js";
import { chainOf } from "../src/worker/handler.js";
import { Runner } from "../src/worker/runner.js";
import { Shared } from "../src/worker/shared.js";
import { Driver } from "../src/worker/thread/driver.js";

const [endpoint = "http://127.0.0.1:50051", jobs = "20000", slots = "500"] = process.argv.slice(2);
const client = new Client(endpoint);
const queue = `bench-${Date.now()}`;
const payload = new Uint8Array(256);
const [count, concurrency] = [Number(jobs), Number(slots)];
await client.submitMany(
  Array.from({ length: count }, (_, number) => ({ queue, key: `k-${number}`, payload })),
);

const shared = new Shared(undefined, concurrency);
const runner: Runner = new Runner(
  chainOf([], () => undefined, undefined),
  shared,
  (finished) => driver.receive({ finished }),
  () => undefined,
);
const data = {
  servers: client.options.servers,
  queues: [{ queue, weight: 1 }],
  concurrency,
  shutdownGraceMs: 0,
  cancelGraceMs: 0,
  workerId: queue,
  shared: shared.buffer,
  tellsSettled: false,
};
const driver = new Driver(data, {
  post: (messages) => {
    setImmediate(() => {
      for (const message of messages) if (message.kind === "start") runner.start(message);
    });
  },
  close: () => undefined,
});
while (shared.counts().started === 0) await sleep(1);
const [working, cpu] = [performance.now(), process.cpuUsage()];
while (shared.counts().settled < count) await sleep(5);
const [worked, { user, system }] = [performance.now() - working, process.cpuUsage(cpu)];
const rate = Math.round((count / worked) * 1_000);
console.log(`ran and settled ${rate} a second, ${Math.round((user + system) / count)} µs of CPU each`);
process.exit(0);
