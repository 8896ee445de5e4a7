/** The fake server's services: each RPC converts, calls the state, converts. */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import type { ConnectRouter } from "@connectrpc/connect";
import { reasons } from "../errors.js";
import {
  QueueAdmin,
  type QueueConfig,
  QueueConfigSchema,
  type QueueSchema,
} from "../generated/keywork/v1/queue_admin_pb.js";
import { Schedules } from "../generated/keywork/v1/schedules_pb.js";
import {
  LostReason,
  type PullRequest,
  type RedriveDeadJobsRequest,
  SubmitOutcome,
  SubmitRequestSchema,
  type SubmitResult,
  WorkQueue,
} from "../generated/keywork/v1/work_queue_pb.js";
import { msOf } from "../wire.js";
import type { Fake } from "./fake.js";
import { lease } from "./sessions.js";
import { settle } from "./settlements.js";
import { type FakeQueue, leftOf, type State } from "./state.js";
import { notFound, notServedYet, statusError } from "./status.js";
import { alone, ofMany, submit, submitStream } from "./submits.js";

const WAIT_MS = 20_000;

export function routes(fake: Fake): (router: ConnectRouter) => void {
  return (router) => {
    workQueue(fake, router);
    queueAdmin(fake, router);
    const refuse = () => {
      throw statusError(notServedYet("Schedules"));
    };
    router.service(Schedules, {
      putSchedule: refuse,
      getSchedule: refuse,
      listSchedules: refuse,
      deleteSchedule: refuse,
    });
  };
}

function workQueue(fake: Fake, router: ConnectRouter): void {
  router.service(WorkQueue, {
    submit: (request) => alone(fake.change((state) => submit(state, request))),
    submitBatch: ({ items }) =>
      fake.change((state) => ({ results: items.map((item) => ofMany(submit(state, item))) })),
    submitStream: (requests) => submitStream(fake, requests),
    lease: (requests, context) => lease(fake, requests, context),
    pull: (request) => pull(fake, request),
    heartbeat: ({ leaseTokens }) => ({
      results: fake.change((state) => leaseTokens.map((token) => extend(state, token))),
    }),
    ack: ({ settlements }) => ({
      results: fake.change((state) => settlements.map((one) => settle(state, one))),
    }),
    getJob: ({ queue, key }) => {
      const job = fake.state.outstanding(queue, key);
      if (job === undefined) {
        throw statusError(notFound(reasons.JOB_NOT_FOUND, "the key has no outstanding job"));
      }
      return { job };
    },
    listJobs: () => {
      throw statusError(notServedYet("ListJobs"));
    },
    cancelJob: () => {
      throw statusError(notServedYet("CancelJob"));
    },
    // biome-ignore lint/correctness/useYield: it refuses before anything is yielded.
    watchJobs: async function* () {
      throw statusError(notServedYet("WatchJobs"));
    },
    listDeadJobs: ({ queue, key }) => ({
      jobs: fake.state.dead(queue).filter((dead) => key === "" || dead.job?.key === key),
    }),
    redriveDeadJobs: (request) => ({ results: fake.change((state) => redrive(state, request)) }),
    deleteDeadJobs: ({ queue, deadIds, all }) => ({
      deleted: fake.change((state) => {
        const { dead } = known(state, queue);
        const chosen = all ? [...dead.keys()] : deadIds;
        return BigInt(chosen.filter((id) => dead.delete(id)).length);
      }),
    }),
  });
}

async function pull(fake: Fake, request: PullRequest) {
  const { queue, maxJobs, workerId, wait } = request;
  let over = false;
  const timer = setTimeout(
    () => {
      over = true;
      fake.changed.ring();
    },
    wait === undefined ? WAIT_MS : msOf(wait),
  );
  try {
    for (;;) {
      const rung = fake.changed.wait();
      const deliveries = fake.state.lease([queue], Math.max(1, maxJobs), undefined, workerId);
      if (deliveries.length > 0 || over) return { deliveries };
      await rung;
    }
  } finally {
    clearTimeout(timer);
  }
}

function extend(state: State, leaseToken: Uint8Array) {
  const lease = state.extend(leaseToken);
  return lease === undefined
    ? { leaseToken, lost: LostReason.EXPIRED }
    : { leaseToken, timeLeft: leftOf(lease) };
}

function redrive(state: State, { queue, deadIds, maxJobs }: RedriveDeadJobsRequest) {
  const { dead } = known(state, queue);
  const chosen = deadIds.length > 0 ? deadIds : [...dead.keys()].slice(0, maxJobs || 100);
  const results: { deadId: bigint; result: SubmitResult }[] = [];
  for (const deadId of chosen) {
    const job = dead.get(deadId)?.job;
    if (job === undefined) continue;
    const { key, payload, contentType, attributes, maxAttempts } = job;
    const again = create(SubmitRequestSchema, { queue, key, payload, contentType, attributes, maxAttempts });
    const { result } = ofMany(submit(state, again));
    const created = result.case === "response" && result.value.outcome === SubmitOutcome.CREATED;
    if (created) dead.delete(deadId);
    results.push({ deadId, result: { $typeName: "keywork.v1.SubmitResult", result } });
  }
  return results;
}

function queueAdmin(fake: Fake, router: ConnectRouter): void {
  router.service(QueueAdmin, {
    createQueue: ({ name, config }) =>
      fake.change((state) => {
        const queue = state.queue(name);
        queue.config ??= config;
        return { queue: described(state, name, queue) };
      }),
    updateQueue: ({ name, config, updateMask }) =>
      fake.change((state) => {
        const queue = known(state, name);
        queue.config = merged(queue.config, config, updateMask?.paths ?? []);
        return { queue: described(state, name, queue) };
      }),
    getQueue: ({ name }) => ({ queue: described(fake.state, name, known(fake.state, name)) }),
    listQueues: () => {
      const names = [...fake.state.queues.keys()].sort();
      return { queues: names.map((name) => described(fake.state, name, known(fake.state, name))) };
    },
    deleteQueue: ({ name, force }) =>
      fake.change((state) => {
        const queue = known(state, name);
        if (!force && queue.jobs.size + queue.dead.size > 0) {
          throw statusError({ code: "FAILED_PRECONDITION", reason: reasons.QUEUE_NOT_EMPTY });
        }
        for (const key of [...queue.jobs.keys()]) state.cancel(name, key);
        state.queues.delete(name);
        return {};
      }),
    pauseQueue: ({ name }) => pause(fake, name, true),
    resumeQueue: ({ name }) => pause(fake, name, false),
    purgeQueue: ({ name }) =>
      fake.change((state) => {
        const keys = [...known(state, name).jobs.keys()];
        for (const key of keys) state.cancel(name, key);
        return { purged: BigInt(keys.length) };
      }),
  });
}

function pause(fake: Fake, name: string, paused: boolean) {
  return fake.change((state) => {
    const queue = known(state, name);
    queue.paused = paused;
    return { queue: described(state, name, queue) };
  });
}

function known(state: State, name: string): FakeQueue {
  const queue = state.queues.get(name);
  if (queue === undefined) {
    throw statusError(notFound(reasons.QUEUE_NOT_FOUND, `there is no queue ${name}`));
  }
  return queue;
}

/** The configuration with the fields that a mask names, such as `lease_duration`, taken from another. */
function merged(
  old: QueueConfig | undefined,
  config: QueueConfig | undefined,
  paths: readonly string[],
): QueueConfig {
  const { $typeName: _old, ...before } = old ?? create(QueueConfigSchema);
  const { $typeName: _new, ...after } = config ?? create(QueueConfigSchema);
  const fields = paths.map((path) => path.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()));
  const taken = Object.entries(after).filter(([field]) => fields.includes(field));
  return create(QueueConfigSchema, { ...before, ...Object.fromEntries(taken) });
}

function described(state: State, name: string, queue: FakeQueue): MessageInitShape<typeof QueueSchema> {
  const entries = [...queue.jobs.values()];
  const ready = entries.filter((entry) => entry.lease === undefined && entry.due === undefined).length;
  const sessions = [...state.sessions.values()].filter((session) => session.queues.includes(name)).length;
  return {
    name,
    config: queue.config ?? {},
    paused: queue.paused,
    replicas: 1,
    stats: {
      outstanding: BigInt(entries.length),
      ready: BigInt(ready),
      inFlight: BigInt(entries.length - ready),
      dead: BigInt(queue.dead.size),
      sessions,
    },
  };
}
