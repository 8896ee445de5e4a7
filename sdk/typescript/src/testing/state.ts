/**
 * The fake server's memory: queues, jobs, leases, and the rules of the contract over them.
 *
 * Nothing here waits, so that a test sees one order of events.
 */
import { randomUUID } from "node:crypto";
import { clone, create } from "@bufbuild/protobuf";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import {
  type DeadJob,
  DeadJobSchema,
  DeadReason,
  type Job,
  JobSchema,
  JobState,
} from "../generated/keywork/v1/job_pb.js";
import type { QueueConfig } from "../generated/keywork/v1/queue_admin_pb.js";
import {
  type Delivery,
  DeliverySchema,
  type Hello,
  type LeaseResponse,
  LeaseResponseSchema,
  LostReason,
  type SubmitRequest,
} from "../generated/keywork/v1/work_queue_pb.js";
import { durationOf } from "../wire.js";
import { now } from "../worker/clock.js";
import type { Outbound } from "./outbound.js";
import { harmless, type Script, Seen } from "./script.js";

/** Attempts of a job that does not say otherwise. */
const ATTEMPTS = 10;

/** How a fake server treats leases, checked. */
export interface Rules {
  readonly leaseDurationMs: number;
  readonly disconnectGraceMs: number | undefined;
  readonly retryDelayMs: number;
}

/** An outstanding job. */
export interface Entry {
  readonly job: Job;
  /** Not before then. */
  due: number | undefined;
  lease: string | undefined;
}

export interface FakeQueue {
  config: QueueConfig | undefined;
  paused: boolean;
  readonly jobs: Map<string, Entry>;
  /** Keys in the order of their turn; some may have to wait for their time. */
  ready: string[];
  readonly dead: Map<bigint, DeadJob>;
  /** Every job that was accepted, by its id. */
  readonly accepted: Map<string, Job>;
}

export interface Lease {
  readonly token: string;
  readonly queue: string;
  readonly key: string;
  readonly workerId: string;
  deadline: number;
  session: number | undefined;
}

export interface Session {
  readonly id: number;
  readonly workerId: string;
  readonly queues: readonly string[];
  readonly outbound: Outbound<LeaseResponse>;
  capacity: number;
  draining: boolean;
}

/** A message to a session. */
export type Down = NonNullable<Parameters<typeof create<typeof LeaseResponseSchema>>[1]>["message"];

export class State {
  readonly rules: Rules;
  readonly script: Script = harmless();
  readonly seen = new Seen();
  readonly queues = new Map<string, FakeQueue>();
  readonly leases = new Map<string, Lease>();
  /** Tokens whose lease ended by their settlement. */
  readonly settled = new Set<string>();
  readonly sessions = new Map<number, Session>();
  #serial = 0;

  constructor(rules: Rules) {
    this.rules = rules;
  }

  /** A number that grows: fencing numbers, sessions, dead letters. */
  number(): number {
    return ++this.#serial;
  }

  queue(name: string): FakeQueue {
    let queue = this.queues.get(name);
    if (queue === undefined) {
      queue = {
        config: undefined,
        paused: false,
        jobs: new Map(),
        ready: [],
        dead: new Map(),
        accepted: new Map(),
      };
      this.queues.set(name, queue);
    }
    return queue;
  }

  outstanding(queue: string, key: string): Job | undefined {
    return this.queues.get(queue)?.jobs.get(key)?.job;
  }

  dead(queue: string): DeadJob[] {
    return [...(this.queues.get(queue)?.dead.values() ?? [])];
  }

  /** Accepts a job whose key is free. */
  accept(request: SubmitRequest, delayMs: number): Job {
    const job = create(JobSchema, {
      id: request.requestId || randomUUID(),
      queue: request.queue,
      key: request.key,
      payload: request.payload,
      contentType: request.contentType,
      attributes: request.attributes,
      state: delayMs > 0 ? JobState.SCHEDULED : JobState.QUEUED,
      attempt: 1,
      maxAttempts: request.maxAttempts || ATTEMPTS,
      submittedAt: timestampNow(),
      ...(request.expiresAt && { expiresAt: request.expiresAt }),
    });
    const queue = this.queue(request.queue);
    queue.accepted.set(job.id, job);
    queue.jobs.set(job.key, { job, due: delayMs > 0 ? now() + delayMs : undefined, lease: undefined });
    queue.ready.push(job.key);
    return job;
  }

  /** Ends the leases that ran out, and starts what was waiting for its time. True: something changed. */
  onTime(): boolean {
    const at = now();
    const late = [...this.leases.values()].filter((lease) => lease.deadline <= at);
    for (const lease of late) {
      this.seen.expired += 1;
      this.takeLease(lease);
      this.retry(lease.queue, lease.key, undefined, "the lease ran out", DeadReason.LEASE_EXPIRED);
      this.tellLost(lease, LostReason.EXPIRED);
    }
    return this.#wakeDue(at) || late.length > 0;
  }

  #wakeDue(at: number): boolean {
    let woken = false;
    for (const queue of this.queues.values()) {
      for (const entry of queue.jobs.values()) {
        if (entry.due === undefined || entry.due > at) continue;
        entry.due = undefined;
        entry.job.state = JobState.QUEUED;
        woken = true;
      }
    }
    return woken;
  }

  /** Leases what is ready to the sessions that have room. */
  dispatch(): void {
    if (this.script.silent) return;
    for (const session of this.sessions.values()) {
      if (session.draining) continue;
      const held = [...this.leases.values()].filter((lease) => lease.session === session.id).length;
      const room = session.capacity - held;
      const deliveries = this.lease(session.queues, room, session.id, session.workerId);
      if (deliveries.length > 0) this.send(session.id, { case: "deliveries", value: { deliveries } });
    }
  }

  /** Leases up to so many jobs. */
  lease(queues: readonly string[], most: number, session: number | undefined, workerId: string): Delivery[] {
    const deliveries: Delivery[] = [];
    for (const name of queues) {
      const queue = this.queues.get(name);
      if (queue === undefined || queue.paused) continue;
      const waiting: string[] = [];
      for (const [place, key] of queue.ready.entries()) {
        if (deliveries.length >= most) {
          waiting.push(...queue.ready.slice(place));
          break;
        }
        const entry = queue.jobs.get(key);
        if (entry === undefined || entry.lease !== undefined) continue;
        if (entry.due === undefined) deliveries.push(this.#leaseOne(entry, session, workerId));
        else waiting.push(key);
      }
      queue.ready = waiting;
    }
    return deliveries;
  }

  #leaseOne(entry: Entry, session: number | undefined, workerId: string): Delivery {
    const { job } = entry;
    const fencingNumber = BigInt(this.number());
    const token = `${job.queue}/${fencingNumber}/${randomUUID()}`;
    const deadline = now() + this.rules.leaseDurationMs;
    const lease = { token, queue: job.queue, key: job.key, workerId, deadline, session };
    this.leases.set(token, lease);
    entry.lease = token;
    job.state = JobState.LEASED;
    job.fencingNumber = fencingNumber;
    job.holder = workerId;
    this.seen.delivered.push(job.key);
    return create(DeliverySchema, {
      leaseToken: Buffer.from(token),
      fencingNumber,
      // A copy: the job goes on changing.
      job: clone(JobSchema, job),
      attempt: job.attempt,
      timeLeft: leftOf(lease),
    });
  }

  /** Ends a lease; its job is neither leased nor ready afterwards. */
  takeLease(lease: Lease): void {
    this.leases.delete(lease.token);
    const entry = this.queues.get(lease.queue)?.jobs.get(lease.key);
    if (entry === undefined) return;
    entry.lease = undefined;
    entry.job.holder = "";
    entry.job.state = JobState.QUEUED;
  }

  /** Extends a lease; `undefined`: there is none. */
  extend(token: Uint8Array): Lease | undefined {
    const lease = this.leases.get(nameOf(token));
    if (lease !== undefined) lease.deadline = now() + this.rules.leaseDurationMs;
    return lease;
  }

  /** An attempt ended without success. */
  retry(
    queueName: string,
    key: string,
    delayMs: number | undefined,
    error: string,
    reason: DeadReason,
  ): void {
    const queue = this.queues.get(queueName);
    const entry = queue?.jobs.get(key);
    if (queue === undefined || entry === undefined) return;
    if (entry.job.attempt >= entry.job.maxAttempts) {
      this.bury(queueName, key, error, reason);
      return;
    }
    entry.job.attempt += 1;
    entry.job.lastError = error;
    entry.job.state = JobState.RETRYING;
    entry.due = now() + (delayMs ?? this.rules.retryDelayMs);
    queue.ready.push(key);
  }

  /** A job becomes a dead letter. */
  bury(queueName: string, key: string, error: string, reason: DeadReason): void {
    const queue = this.queues.get(queueName);
    const entry = queue?.jobs.get(key);
    if (queue === undefined || entry === undefined) return;
    queue.jobs.delete(key);
    entry.job.lastError = error;
    entry.job.state = JobState.DEAD;
    const deadId = BigInt(this.number());
    queue.dead.set(deadId, create(DeadJobSchema, { deadId, job: entry.job, reason, diedAt: timestampNow() }));
  }

  /** A session's stream has ended: its leases run out sooner where there is a grace. */
  startGrace(session: number): void {
    const { disconnectGraceMs } = this.rules;
    if (disconnectGraceMs === undefined) return;
    for (const lease of this.leases.values()) {
      if (lease.session === session) lease.deadline = Math.min(lease.deadline, now() + disconnectGraceMs);
    }
  }

  /** Goes on with the leases that a new session shows, and hands back those of its worker that it does not. */
  resume(session: number, hello: Hello) {
    const resumed: { leaseToken: Uint8Array; timeLeft: ReturnType<typeof leftOf> }[] = [];
    const lost: { leaseToken: Uint8Array; reason: LostReason }[] = [];
    for (const leaseToken of hello.heldLeases) {
      const lease = this.leases.get(nameOf(leaseToken));
      if (lease === undefined) {
        lost.push({ leaseToken, reason: LostReason.EXPIRED });
      } else {
        lease.session = session;
        resumed.push({ leaseToken, timeLeft: leftOf(lease) });
      }
    }
    for (const lease of [...this.leases.values()]) {
      if (lease.workerId === hello.workerId && lease.session !== session) this.handBack(lease);
    }
    return { resumed, lost };
  }

  handBack(lease: Lease): void {
    this.takeLease(lease);
    this.queues.get(lease.queue)?.ready.unshift(lease.key);
  }

  /** Ends a job without running it; its holder is told. */
  cancel(queueName: string, key: string): Job | undefined {
    const queue = this.queues.get(queueName);
    const entry = queue?.jobs.get(key);
    if (queue === undefined || entry === undefined) return undefined;
    const lease = entry.lease === undefined ? undefined : this.leases.get(entry.lease);
    queue.jobs.delete(key);
    if (lease !== undefined) {
      this.leases.delete(lease.token);
      this.tellLost(lease, LostReason.CANCELLED);
    }
    entry.job.state = JobState.ENDED;
    return entry.job;
  }

  /** Takes a lease away from its holder, who is told when `tell` is set. */
  loseLease(queue: string, key: string, reason: LostReason, tell: boolean): void {
    const token = this.queues.get(queue)?.jobs.get(key)?.lease;
    const lease = token === undefined ? undefined : this.leases.get(token);
    if (lease === undefined) return;
    this.takeLease(lease);
    if (reason === LostReason.CANCELLED) this.queues.get(queue)?.jobs.delete(key);
    else this.queues.get(queue)?.ready.push(key);
    if (tell) this.tellLost(lease, reason);
  }

  tellLost(lease: Lease, reason: LostReason): void {
    if (lease.session === undefined) return;
    const leases = [{ leaseToken: Buffer.from(lease.token), reason }];
    this.send(lease.session, { case: "leasesLost", value: { leases } });
  }

  /** Sends to a session, unless the script says silence. */
  send(session: number, message: Down): void {
    if (this.script.silent || message === undefined) return;
    this.sessions.get(session)?.outbound.send(create(LeaseResponseSchema, { message }));
  }
}

/** How long a lease has left, as the wire has it. */
export function leftOf(lease: Lease) {
  return durationOf(Math.max(0, lease.deadline - now()), "timeLeft");
}

/** Whether a queue can have this name. */
export function isQueueName(name: string): boolean {
  return /^[a-z0-9][a-z0-9_-]{0,63}$/.test(name);
}

/** A token as the state names it. */
export function nameOf(token: Uint8Array): string {
  return Buffer.from(token).toString();
}
