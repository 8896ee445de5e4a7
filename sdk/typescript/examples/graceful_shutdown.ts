// Stops cleanly: the first signal drains, the second gives everything back and exits non-zero.
import { setTimeout as sleep } from "node:timers/promises";
import { Client, Worker, WorkerError } from "@keywork/sdk";

const worker = new Worker({
  client: Client.fromEnv(),
  queues: ["sync"],
  concurrency: 8,
  // Less than what the orchestrator waits before it kills.
  shutdownGraceMs: 25_000,
  // Its way too, not only warnings.
  logger: console,
  handler: async (context, job) => {
    console.log(`started ${job.key}`);
    await sleep(10_000, undefined, { signal: context.signal });
  },
});

try {
  await worker.run();
} catch (error) {
  if (!(error instanceof WorkerError)) throw error;
  console.error(error.message);
  // Not only an exit code: handlers that were left behind would keep the process alive.
  process.exit(1);
}
