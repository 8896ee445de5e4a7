/**
 * Offering jobs, looking at them, and looking after queues.
 *
 * A client connects when it is first used. It retries what is safe to retry and tells the rest to the caller; it never
 * runs jobs: that is the worker's part.
 */
import type { DeadJob, Job, SubmitAnswer, SubmitResult } from "../job.js";
import { submitBatch } from "./batch.js";
import { type CallOptions, Core, type RawClients } from "./core.js";
import * as dead from "./dead.js";
import * as jobs from "./jobs.js";
import * as leases from "./leases.js";
import { type ClientOptions, checked, type Options } from "./options.js";
import type { PageOptions } from "./pages.js";
import * as queues from "./queues.js";
import * as schedules from "./schedules.js";
import { type SubmitStreamAnswer, submitMany, submitStream } from "./stream.js";
import { type Submit, submit } from "./submit.js";

/** A connection to Keywork's servers. One is enough for a whole program. */
export class Client implements AsyncDisposable {
  readonly #core: Core;

  /**
   * A client of one server, such as `http://127.0.0.1:50051`, or with options. Nothing is connected yet.
   *
   * @throws {TypeError} An endpoint, a header or a certificate cannot be read.
   * @throws {RangeError} A time is not positive, or there is no endpoint.
   */
  constructor(options: string | ClientOptions = {}) {
    this.#core = new Core(checked(typeof options === "string" ? { endpoints: [options] } : options));
  }

  /**
   * A client of the servers that the environment variable `KEYWORK_SERVER` names, with commas between them; without it,
   * of `http://127.0.0.1:50051`, where `keywork serve` listens by itself.
   *
   * @throws {TypeError} One of them cannot be read; the rest is as for `new Client`.
   */
  static fromEnv(options: Omit<ClientOptions, "endpoints"> = {}): Client {
    const servers = process.env["KEYWORK_SERVER"]?.trim();
    if (!servers) return new Client(options);
    return new Client({ ...options, endpoints: servers.split(",").map((server) => server.trim()) });
  }

  /** The generated clients: every RPC and every field, without retries. See `@keywork/sdk/raw`. */
  get raw(): RawClients {
    return this.#core.raw();
  }

  /** @internal */
  get options(): Options {
    return this.#core.options;
  }

  /**
   * Offers one job. While servers are away it tries again, with the same `requestId`, until the client's submit
   * deadline.
   *
   * @throws {KeyworkError} The job was refused, or no server answered in time; `hasNoSideEffects()` says whether the
   * job may have been accepted.
   */
  async submit(offered: Submit, options: CallOptions = {}): Promise<SubmitResult> {
    return submit(this.#core, offered, options);
  }

  /**
   * Offers up to 1,000 jobs in one call, and answers in their order. A bad one spoils no other. While servers are away
   * the call is repeated, with the same `requestId`s.
   *
   * For more of them, or without waiting for the slowest: {@link Client.submitMany}.
   *
   * @throws {KeyworkError} The call failed as a whole.
   */
  async submitBatch(submits: Iterable<Submit>, options: CallOptions = {}): Promise<SubmitAnswer[]> {
    return submitBatch(this.#core, submits, options);
  }

  /**
   * Offers many jobs on one stream, and answers in their order. A bad one spoils no other.
   *
   * Unanswered offers are made again, with the same `requestId`s, when the stream breaks; an offer whose answer is an
   * error has failed for good or stayed unanswered for the client's submit deadline.
   */
  async submitMany(
    submits: Iterable<Submit> | AsyncIterable<Submit>,
    options: CallOptions = {},
  ): Promise<SubmitAnswer[]> {
    return submitMany(this.#core, submits, options);
  }

  /**
   * Offers jobs as they come, and yields each answer, with the offer's place in the order, as soon as it is there: for
   * sources without an end. Leaving the loop ends it.
   */
  submitStream(
    submits: Iterable<Submit> | AsyncIterable<Submit>,
    options: CallOptions = {},
  ): AsyncGenerator<SubmitStreamAnswer, void> {
    return submitStream(this.#core, submits, options);
  }

  /** The outstanding job of a key, with its payload; `undefined` when the key is free. */
  async getJob(queue: string, key: string, options: CallOptions = {}): Promise<Job | undefined> {
    return jobs.getJob(this.#core, queue, key, options);
  }

  /** The outstanding jobs of a queue, without payloads. */
  listJobs(queue: string, options: jobs.ListJobsOptions = {}): AsyncGenerator<Job, void> {
    return jobs.listJobs(this.#core, queue, options);
  }

  /** Ends the outstanding job of a key. */
  async cancelJob(queue: string, key: string, options: jobs.CancelJobOptions = {}): Promise<Job> {
    return jobs.cancelJob(this.#core, queue, key, options);
  }

  /** Yields jobs whose state changed, as it happens. Throws when the stream breaks; look again, then watch again. */
  watchJobs(queue: string, options: jobs.WatchJobsOptions = {}): AsyncGenerator<Job, void> {
    return jobs.watchJobs(this.#core, queue, options);
  }

  /** A queue's dead letters, oldest first. */
  listDeadJobs(queue: string, options: dead.ListDeadJobsOptions = {}): AsyncGenerator<DeadJob, void> {
    return dead.listDeadJobs(this.#core, queue, options);
  }

  /**
   * Submits dead letters again, with attempts counted from 1. Repeating it is safe: one that was redriven is no dead
   * letter any more.
   */
  async redriveDeadJobs(
    queue: string,
    which: dead.Which,
    options: CallOptions = {},
  ): Promise<dead.Redriven[]> {
    return dead.redriveDeadJobs(this.#core, queue, which, options);
  }

  /** Deletes dead letters for good; tells how many there were. */
  async deleteDeadJobs(
    queue: string,
    deadIds: readonly bigint[],
    options: CallOptions = {},
  ): Promise<number> {
    return dead.deleteDeadJobs(this.#core, queue, { deadIds }, options);
  }

  /** Deletes all dead letters of a queue for good; tells how many there were. */
  async deleteAllDeadJobs(queue: string, options: CallOptions = {}): Promise<number> {
    return dead.deleteDeadJobs(this.#core, queue, { all: true }, options);
  }

  /** Leases jobs without a stream; none when the wait ended without one. */
  async pull(queue: string, options: leases.PullOptions = {}): Promise<leases.Leased[]> {
    return leases.pull(this.#core, queue, options);
  }

  /** Extends leases: one result for each token, in their order. */
  async heartbeat(
    tokens: readonly Uint8Array[],
    options: CallOptions = {},
  ): Promise<leases.LeaseExtension[]> {
    return leases.heartbeat(this.#core, tokens, options);
  }

  /** Settles leases: one result for each, in their order. Repeating it is safe. */
  async ack(settlements: readonly leases.Settlement[], options: CallOptions = {}): Promise<leases.Settled[]> {
    return leases.ack(this.#core, settlements, options);
  }

  /** Makes a queue; also when it is there already with this configuration. */
  async createQueue(
    name: string,
    config: queues.QueueConfig = {},
    options: CallOptions = {},
  ): Promise<queues.Queue> {
    return queues.createQueue(this.#core, name, config, options);
  }

  /** Changes what is set in `config`, and nothing else. */
  async updateQueue(
    name: string,
    config: queues.QueueConfig,
    options: CallOptions = {},
  ): Promise<queues.Queue> {
    return queues.updateQueue(this.#core, name, config, options);
  }

  /** One queue with its counts. */
  async getQueue(name: string, options: CallOptions = {}): Promise<queues.Queue> {
    return queues.getQueue(this.#core, name, options);
  }

  /** All queues, by name. */
  listQueues(options: CallOptions & PageOptions = {}): AsyncGenerator<queues.Queue, void> {
    return queues.listQueues(this.#core, options);
  }

  /** Deletes a queue; with `force` also when it holds jobs or dead letters. */
  async deleteQueue(name: string, options: queues.DeleteQueueOptions = {}): Promise<void> {
    return queues.deleteQueue(this.#core, name, options);
  }

  /** Stops deliveries. Leases that are out go on; submits are accepted. */
  async pauseQueue(name: string, options: CallOptions = {}): Promise<queues.Queue> {
    return queues.pauseQueue(this.#core, name, options);
  }

  /** Goes on with deliveries. */
  async resumeQueue(name: string, options: CallOptions = {}): Promise<queues.Queue> {
    return queues.resumeQueue(this.#core, name, options);
  }

  /** Ends all outstanding jobs of a queue without running them; tells how many. */
  async purgeQueue(name: string, options: CallOptions = {}): Promise<number> {
    return queues.purgeQueue(this.#core, name, options);
  }

  /** Makes or replaces a schedule. */
  async putSchedule(
    schedule: schedules.ScheduleInput,
    options: CallOptions = {},
  ): Promise<schedules.Schedule> {
    return schedules.putSchedule(this.#core, schedule, options);
  }

  /** One schedule. */
  async getSchedule(name: string, options: CallOptions = {}): Promise<schedules.Schedule> {
    return schedules.getSchedule(this.#core, name, options);
  }

  /** All schedules, by name. */
  listSchedules(options: CallOptions & PageOptions = {}): AsyncGenerator<schedules.Schedule, void> {
    return schedules.listSchedules(this.#core, options);
  }

  /** Ends a schedule. Jobs that it submitted stay. */
  async deleteSchedule(name: string, options: CallOptions = {}): Promise<void> {
    return schedules.deleteSchedule(this.#core, name, options);
  }

  /**
   * Closes the connections; calls under way end, and a later call connects anew. Workers of this client have connections
   * of their own.
   */
  close(): void {
    this.#core.channels.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }
}
