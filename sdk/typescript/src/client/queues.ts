/** Making, changing and looking at queues. */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { uint32 } from "../fields.js";
import {
  QueueConfigSchema,
  type QueueConfig as WireConfig,
  type Queue as WireQueue,
} from "../generated/keywork/v1/queue_admin_pb.js";
import { dateOf, durationOf, msOf } from "../wire.js";
import type { CallOptions, Core } from "./core.js";
import { type PageOptions, paged } from "./pages.js";
import { type BackoffRange, backoffOf } from "./submit.js";

/** The configuration of a queue. What is not set takes the server's default. */
export interface QueueConfig {
  /** How long a lease lasts from its last extension: 2 s to 12 h. Default: 15,000. */
  readonly leaseDurationMs?: number;
  /** The longest that one attempt may run, heartbeats or not; 0: no limit. Default: 1 h. */
  readonly maxRunTimeMs?: number;
  /** Attempts before a job becomes a dead letter: 1 to 1,000. Default: 10. */
  readonly maxAttempts?: number;
  /** The first wait between attempts, and the longest. Default: 1 s doubling to 10 min. */
  readonly backoff?: BackoffRange;
  /** The most outstanding jobs. Default: 10,000,000. */
  readonly maxDepth?: number;
  /** The largest payload in bytes. Default: 524,288. */
  readonly maxPayloadBytes?: number;
  /** After a worker's stream broke, its leases go to others after this long. Default: at their deadline. */
  readonly disconnectGraceMs?: number;
  /** How long dead letters are kept. Default: 14 days. */
  readonly deadLetterRetentionMs?: number;
  /** How long a `requestId` is remembered. Default: 2 min. */
  readonly dedupeWindowMs?: number;
}

/** One queue. */
export interface Queue {
  /** The name. */
  readonly name: string;
  /** The configuration, defaults filled in. */
  readonly config: QueueConfig;
  /** True: no deliveries. */
  readonly paused: boolean;
  /** When it was made. */
  readonly createdAt: Date | undefined;
  /** What is in it. */
  readonly stats: QueueStats;
  /** How many NATS nodes keep it. */
  readonly replicas: number;
}

/** What is in a queue. */
export interface QueueStats {
  /** Outstanding jobs. */
  readonly outstanding: number;
  /** Of these, never delivered yet. */
  readonly ready: number;
  /** Of these, leased, scheduled or waiting to retry. */
  readonly inFlight: number;
  /** Dead letters. */
  readonly dead: number;
  /** Sessions that serve it, at the server that answers. */
  readonly sessions: number;
}

/** What may be deleted. */
export interface DeleteQueueOptions extends CallOptions {
  /** Delete it also when it holds jobs or dead letters. Default: false. */
  readonly force?: boolean;
}

/** The names that an update's mask has for what is set. */
const FIELDS: Readonly<Record<keyof QueueConfig, string>> = {
  leaseDurationMs: "lease_duration",
  maxRunTimeMs: "max_run_time",
  maxAttempts: "max_attempts",
  backoff: "backoff",
  maxDepth: "max_depth",
  maxPayloadBytes: "max_payload_bytes",
  disconnectGraceMs: "disconnect_grace",
  deadLetterRetentionMs: "dead_letter_retention",
  dedupeWindowMs: "dedupe_window",
};

export async function createQueue(
  core: Core,
  name: string,
  config: QueueConfig,
  options: CallOptions,
): Promise<Queue> {
  const request = { name, config: wireConfig(config) };
  const answer = await core.call((clients, call) => clients.queueAdmin.createQueue(request, call), options);
  return queueOf(answer.queue);
}

/** Changes what is set in `config`, and nothing else. */
export async function updateQueue(
  core: Core,
  name: string,
  config: QueueConfig,
  options: CallOptions,
): Promise<Queue> {
  const set = (Object.keys(FIELDS) as (keyof QueueConfig)[]).filter((field) => config[field] !== undefined);
  const request = {
    name,
    config: wireConfig(config),
    updateMask: { paths: set.map((field) => FIELDS[field]) },
  };
  const answer = await core.call((clients, call) => clients.queueAdmin.updateQueue(request, call), options);
  return queueOf(answer.queue);
}

export async function getQueue(core: Core, name: string, options: CallOptions): Promise<Queue> {
  const answer = await core.call((clients, call) => clients.queueAdmin.getQueue({ name }, call), options);
  return queueOf(answer.queue);
}

export function listQueues(core: Core, options: CallOptions & PageOptions) {
  const pageSize = uint32(options.pageSize ?? 0, "pageSize");
  return paged(async (pageToken) => {
    const request = { pageSize, pageToken };
    const answer = await core.call((clients, call) => clients.queueAdmin.listQueues(request, call), options);
    return { items: answer.queues.map(queueOf), nextPageToken: answer.nextPageToken };
  });
}

export async function deleteQueue(core: Core, name: string, options: DeleteQueueOptions): Promise<void> {
  const request = { name, force: options.force ?? false };
  await core.call((clients, call) => clients.queueAdmin.deleteQueue(request, call), options);
}

export async function pauseQueue(core: Core, name: string, options: CallOptions): Promise<Queue> {
  const answer = await core.call((clients, call) => clients.queueAdmin.pauseQueue({ name }, call), options);
  return queueOf(answer.queue);
}

export async function resumeQueue(core: Core, name: string, options: CallOptions): Promise<Queue> {
  const answer = await core.call((clients, call) => clients.queueAdmin.resumeQueue({ name }, call), options);
  return queueOf(answer.queue);
}

export async function purgeQueue(core: Core, name: string, options: CallOptions): Promise<number> {
  const answer = await core.call((clients, call) => clients.queueAdmin.purgeQueue({ name }, call), options);
  return Number(answer.purged);
}

function wireConfig(config: QueueConfig): WireConfig {
  const wire: MessageInitShape<typeof QueueConfigSchema> = {};
  const duration = (field: keyof QueueConfig & `${string}Ms`) => {
    const ms = config[field];
    return ms === undefined ? {} : { [field.slice(0, -2)]: durationOf(ms, `config.${field}`) };
  };
  Object.assign(wire, duration("leaseDurationMs"), duration("maxRunTimeMs"), duration("disconnectGraceMs"));
  Object.assign(wire, duration("deadLetterRetentionMs"), duration("dedupeWindowMs"));
  if (config.maxAttempts !== undefined) wire.maxAttempts = uint32(config.maxAttempts, "config.maxAttempts");
  if (config.backoff !== undefined) wire.backoff = backoffOf(config.backoff, "config.backoff");
  if (config.maxDepth !== undefined) wire.maxDepth = BigInt(uint32(config.maxDepth, "config.maxDepth"));
  if (config.maxPayloadBytes !== undefined) {
    wire.maxPayloadBytes = uint32(config.maxPayloadBytes, "config.maxPayloadBytes");
  }
  return create(QueueConfigSchema, wire);
}

function queueOf(wire: WireQueue | undefined): Queue {
  return {
    name: wire?.name ?? "",
    config: configOf(wire?.config),
    paused: wire?.paused ?? false,
    createdAt: dateOf(wire?.createdAt),
    replicas: wire?.replicas ?? 0,
    stats: {
      outstanding: Number(wire?.stats?.outstanding ?? 0),
      ready: Number(wire?.stats?.ready ?? 0),
      inFlight: Number(wire?.stats?.inFlight ?? 0),
      dead: Number(wire?.stats?.dead ?? 0),
      sessions: wire?.stats?.sessions ?? 0,
    },
  };
}

function configOf(wire: WireConfig | undefined): QueueConfig {
  const backoff = wire?.backoff && {
    initialMs: msOf(wire.backoff.initial),
    maxMs: msOf(wire.backoff.max ?? wire.backoff.initial),
  };
  return {
    ...(wire?.leaseDuration && { leaseDurationMs: msOf(wire.leaseDuration) }),
    ...(wire?.maxRunTime && { maxRunTimeMs: msOf(wire.maxRunTime) }),
    ...(wire?.maxAttempts !== undefined && { maxAttempts: wire.maxAttempts }),
    ...(backoff && { backoff }),
    ...(wire?.maxDepth !== undefined && { maxDepth: Number(wire.maxDepth) }),
    ...(wire?.maxPayloadBytes !== undefined && { maxPayloadBytes: wire.maxPayloadBytes }),
    ...(wire?.disconnectGrace && { disconnectGraceMs: msOf(wire.disconnectGrace) }),
    ...(wire?.deadLetterRetention && { deadLetterRetentionMs: msOf(wire.deadLetterRetention) }),
    ...(wire?.dedupeWindow && { dedupeWindowMs: msOf(wire.dedupeWindow) }),
  };
}
