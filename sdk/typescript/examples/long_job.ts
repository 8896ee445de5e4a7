// A job that takes longer than its lease: heartbeats are sent for it, and it stops when the lease is lost.
import { setTimeout as sleep } from "node:timers/promises";
import { Client, type Context, Fail, type Job, Worker } from "@keywork/sdk";

async function rebuild(context: Context, job: Job): Promise<void> {
  const steps = Number(job.text());
  if (!Number.isInteger(steps)) throw new Fail(`the payload is no number of steps: ${job.text()}`);
  for (let step = 0; step < steps; step += 1) {
    // Rejects when the lease is lost: somebody else may be about to run this job, so leave everything as it is.
    await sleep(1_000, undefined, { signal: context.signal });
    // What is written carries the fencing number, so that a late write of an older lease can be refused.
    console.log(`${job.key} step ${step}, fencing number ${job.fencingNumber}`);
  }
}

const client = Client.fromEnv();
await new Worker({ client, queues: ["rebuild"], handler: rebuild }).run();
