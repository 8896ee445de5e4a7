/** Looking at outstanding jobs, and ending them. */
import { KeyworkError, reasons } from "../errors.js";
import { uint32 } from "../fields.js";
import { type Job, jobOf } from "../job.js";
import type { CallOptions, Core } from "./core.js";
import { type PageOptions, paged } from "./pages.js";

/** Which outstanding jobs of a queue. */
export interface ListJobsOptions extends CallOptions, PageOptions {
  /** Only keys that begin so. Default: all. */
  readonly keyPrefix?: string;
}

/** Which job of a key is to be ended. */
export interface CancelJobOptions extends CallOptions {
  /** Only if the outstanding job has this id. Default: whatever job it is. */
  readonly jobId?: string;
}

/** Which jobs to watch. */
export interface WatchJobsOptions extends CallOptions {
  /** Only this key. Default: all. */
  readonly key?: string;
}

export async function getJob(
  core: Core,
  queue: string,
  key: string,
  options: CallOptions,
): Promise<Job | undefined> {
  try {
    const answer = await core.call(
      (clients, call) => clients.workQueue.getJob({ queue, key }, call),
      options,
    );
    return answer.job && jobOf(answer.job);
  } catch (error) {
    if (error instanceof KeyworkError && error.reason === reasons.JOB_NOT_FOUND) return undefined;
    throw error;
  }
}

export function listJobs(core: Core, queue: string, options: ListJobsOptions) {
  const { keyPrefix = "" } = options;
  const pageSize = uint32(options.pageSize ?? 0, "pageSize");
  return paged(async (pageToken) => {
    const request = { queue, keyPrefix, pageSize, pageToken };
    const answer = await core.call((clients, call) => clients.workQueue.listJobs(request, call), options);
    return { items: answer.jobs.map(jobOf), nextPageToken: answer.nextPageToken };
  });
}

export async function cancelJob(
  core: Core,
  queue: string,
  key: string,
  options: CancelJobOptions,
): Promise<Job> {
  const request = { queue, key, jobId: options.jobId ?? "" };
  const answer = await core.call((clients, call) => clients.workQueue.cancelJob(request, call), options);
  return jobOf(answer.job);
}

/** Ends with an error when the stream breaks: what happened meanwhile cannot be caught up on. */
export async function* watchJobs(
  core: Core,
  queue: string,
  options: WatchJobsOptions,
): AsyncGenerator<Job, void> {
  const { signal, key = "" } = options;
  signal?.throwIfAborted();
  const place = core.channels.place();
  try {
    const events = core
      .raw()
      .workQueue.watchJobs({ queue, key }, { timeoutMs: 0, ...(signal && { signal }) });
    for await (const event of events) yield* event.jobs.map(jobOf);
  } catch (thrown) {
    signal?.throwIfAborted();
    throw core.failed(thrown, place);
  }
}
