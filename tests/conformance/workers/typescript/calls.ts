/** `call`: one call of the client's hand-written API, with its answer in the contract's words. */
import type { Client, Queue, QueueConfig, Settlement } from "../../../../sdk/typescript/dist/index.js";
import { number, text } from "./protocol.js";

type Args = Readonly<Record<string, unknown>>;

const CALLS: Readonly<Record<string, (client: Client, args: Args) => Promise<unknown>>> = {
  get_job: async (client, { queue, key }) => {
    const job = await client.getJob(text(queue), text(key));
    return { state: job?.state ?? "", attempt: job?.attempt ?? 0, id: job?.id ?? "" };
  },
  create_queue: async (client, args) =>
    queueOf(await client.createQueue(text(args["queue"]), configOf(args))),
  update_queue: async (client, args) =>
    queueOf(await client.updateQueue(text(args["queue"]), configOf(args))),
  get_queue: async (client, { queue }) => queueOf(await client.getQueue(text(queue))),
  list_queues: async (client) => ({ queues: (await collect(client.listQueues())).map(queueOf) }),
  delete_queue: async (client, { queue, force }) => {
    await client.deleteQueue(text(queue), { force: force !== false });
    return {};
  },
  pause_queue: async (client, { queue }) => queueOf(await client.pauseQueue(text(queue))),
  resume_queue: async (client, { queue }) => queueOf(await client.resumeQueue(text(queue))),
  purge_queue: async (client, { queue }) => ({ purged: await client.purgeQueue(text(queue)) }),
  list_dead_jobs: async (client, { queue }) => {
    const dead = await collect(client.listDeadJobs(text(queue)));
    return { jobs: dead.map(({ job, reason }) => ({ key: job.key, reason, last_error: job.lastError })) };
  },
  redrive_dead_jobs: async (client, args) => {
    const results = await client.redriveDeadJobs(text(args["queue"]), await deadIds(client, args));
    return { outcomes: results.map(({ result, error }) => result?.outcome ?? error?.reason) };
  },
  delete_dead_jobs: async (client, args) => ({
    deleted: await client.deleteDeadJobs(text(args["queue"]), await deadIds(client, args)),
  }),
  cancel_job: async (client, { queue, key }) => {
    const job = await client.cancelJob(text(queue), text(key));
    return { state: job.state, id: job.id, key: job.key };
  },
  list_jobs: async (client, { queue }) => {
    const jobs = await collect(client.listJobs(text(queue)));
    return { jobs: jobs.map(({ key, state, id }) => ({ key, state, id })) };
  },
  pull: async (client, { queue, max_jobs, wait_ms }) => {
    const waitMs = typeof wait_ms === "number" ? { waitMs: wait_ms } : {};
    const leased = await client.pull(text(queue), { maxJobs: number(max_jobs) ?? 1, ...waitMs });
    const jobs = leased.map(({ token, job }) => ({
      key: job.key,
      token: Buffer.from(token).toString("base64"),
      fencing_number: Number(job.fencingNumber),
      attempt: job.attempt,
    }));
    return { jobs };
  },
  heartbeat: async (client, { tokens }) => {
    const results = await client.heartbeat((tokens as string[]).map(bytesOf));
    const many = (outcome: string) => results.filter((one) => one.outcome === outcome).length;
    return { renewed: many("EXTENDED"), lost: many("LOST") };
  },
  ack: async (client, args) => {
    const [settled] = await client.ack([settlementOf(args)]);
    return { outcome: settled?.outcome };
  },
};

/** Makes a call; `undefined`: it is not known. */
export function callOf(client: Client, rpc: string, args: Args): Promise<unknown> | undefined {
  return CALLS[rpc]?.(client, args);
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

async function deadIds(client: Client, { queue, keys }: Args): Promise<bigint[]> {
  const chosen = (await collect(client.listDeadJobs(text(queue)))).filter(
    ({ job }) => !Array.isArray(keys) || keys.includes(job.key),
  );
  return chosen.map(({ deadId }) => deadId);
}

function configOf(args: Args): QueueConfig {
  const given = (name: string) => (typeof args[name] === "number" ? args[name] : undefined);
  const [lease, attempts, depth] = [given("lease_duration_ms"), given("max_attempts"), given("max_depth")];
  const [grace, backoff] = [given("disconnect_grace_ms"), given("backoff_ms")];
  return {
    ...(lease !== undefined && { leaseDurationMs: lease }),
    ...(attempts !== undefined && { maxAttempts: attempts }),
    ...(depth !== undefined && { maxDepth: depth }),
    ...(grace !== undefined && { disconnectGraceMs: grace }),
    ...(backoff !== undefined && { backoff: { initialMs: backoff, maxMs: backoff } }),
  };
}

function queueOf({ name, config, paused, stats }: Queue) {
  return {
    queue: name,
    lease_duration_ms: config.leaseDurationMs,
    max_attempts: config.maxAttempts,
    paused,
    outstanding: stats.outstanding,
    dead: stats.dead,
  };
}

function settlementOf({ token, with: how, delay_ms, text: words }: Args): Settlement {
  const lease = { token: bytesOf(text(token)) };
  const delay = typeof delay_ms === "number" ? { delayMs: delay_ms } : {};
  switch (how) {
    case "fail":
      return { ...lease, as: "fail", reason: text(words) };
    case "release":
      return { ...lease, as: "release" };
    case "rerun":
      return { ...lease, as: "rerun", ...delay };
    case "retry":
    case "error":
      return { ...lease, as: "retry", error: text(words), ...delay };
    default:
      return { ...lease, as: "complete" };
  }
}

/** A token that is no Base64 is meant as its text. */
function bytesOf(token: string): Uint8Array {
  const bytes = Buffer.from(token, "base64");
  return bytes.toString("base64") === token ? bytes : Buffer.from(token);
}
