/** Dead letters: looking at them, submitting them again, deleting them. */

import { uint32 } from "../fields.js";
import { type DeadJob, deadJobOf, type SubmitAnswer, submitAnswer } from "../job.js";
import type { CallOptions, Core } from "./core.js";
import { type PageOptions, paged } from "./pages.js";

/** Which dead letters of a queue to list. */
export interface ListDeadJobsOptions extends CallOptions, PageOptions {
  /** Only this key. Default: all. */
  readonly key?: string;
}

/** Which dead letters to redrive: these, by `deadId` (at most 1,000; none are none), or so many of the oldest ones. */
export type Which = readonly bigint[] | { readonly oldest: number };

/**
 * How one redrive ended. `CREATED`: the job runs again and the dead letter is gone. `ALREADY_OUTSTANDING`: the key is
 * busy and the dead letter stays.
 */
export type Redriven = SubmitAnswer & { readonly deadId: bigint };

export function listDeadJobs(
  core: Core,
  queue: string,
  options: ListDeadJobsOptions,
): AsyncGenerator<DeadJob, void> {
  const { key = "" } = options;
  const pageSize = uint32(options.pageSize ?? 0, "pageSize");
  return paged(async (pageToken) => {
    const request = { queue, key, pageSize, pageToken };
    const answer = await core.call((clients, call) => clients.workQueue.listDeadJobs(request, call), options);
    return { items: answer.jobs.map(deadJobOf), nextPageToken: answer.nextPageToken };
  });
}

export async function redriveDeadJobs(
  core: Core,
  queue: string,
  which: Which,
  options: CallOptions,
): Promise<Redriven[]> {
  const oldest = "oldest" in which ? uint32(which.oldest, "oldest") : undefined;
  // For a server, no number and no ids would mean as many of the oldest as it thinks fit.
  if (oldest === 0 || (!("oldest" in which) && which.length === 0)) return [];
  const chosen = "oldest" in which ? { maxJobs: which.oldest } : { deadIds: [...which] };
  const answer = await core.call(
    (clients, call) => clients.workQueue.redriveDeadJobs({ queue, ...chosen }, call),
    options,
  );
  return answer.results.map(({ deadId, result }) => ({ deadId, ...submitAnswer(result, false) }));
}

export async function deleteDeadJobs(
  core: Core,
  queue: string,
  which: { readonly deadIds: readonly bigint[] } | { readonly all: true },
  options: CallOptions,
): Promise<number> {
  if ("deadIds" in which && which.deadIds.length === 0) return 0;
  const request = "all" in which ? { queue, all: true } : { queue, deadIds: [...which.deadIds] };
  const answer = await core.call((clients, call) => clients.workQueue.deleteDeadJobs(request, call), options);
  return Number(answer.deleted);
}
