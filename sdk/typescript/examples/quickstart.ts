// A first program: offers one job, runs jobs until SIGTERM or Ctrl-C.
import { Client, Worker } from "@keywork/sdk";

const client = Client.fromEnv();
await client.submit({ queue: "reconcile", key: "cluster-eu-1", payload: "v1" });

const worker = new Worker({
  client,
  queues: ["reconcile"],
  handler: async (_context, job) => {
    console.log(`${job.key}, attempt ${job.attempt}`);
  },
});
await worker.run();
