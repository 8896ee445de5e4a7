/** Offering up to a thousand jobs in one call. */
import { KeyworkError } from "../errors.js";
import { type SubmitAnswer, submitAnswer } from "../job.js";
import type { CallOptions, Core } from "./core.js";
import { type Offer, offerOf, type Submit, untilAnswered } from "./submit.js";

export async function submitBatch(
  core: Core,
  submits: Iterable<Submit>,
  options: CallOptions,
): Promise<SubmitAnswer[]> {
  const offers = Array.from(submits, (submit) => tryOffer(core, submit));
  const good = offers.filter((offer): offer is Offer => !(offer instanceof KeyworkError));
  const results = good.length === 0 ? [] : await sendBatch(core, good, options);
  let next = 0;
  return offers.map((offer) => {
    if (offer instanceof KeyworkError) return { error: offer };
    return submitAnswer(results[next++], offer.ownId);
  });
}

/** An offer, or why this side cannot make one of it: that spoils no other item. */
export function tryOffer(core: Core, submit: Submit): Offer | KeyworkError {
  try {
    return offerOf(submit, core.options.tracing);
  } catch (error) {
    if (error instanceof KeyworkError) return error;
    throw error;
  }
}

async function sendBatch(core: Core, offers: readonly Offer[], options: CallOptions) {
  const items = offers.map((offer) => offer.request);
  const answer = await untilAnswered(core, options, (limitMs) =>
    core.call((clients, call) => clients.workQueue.submitBatch({ items }, call), options, limitMs),
  );
  return answer.results;
}
