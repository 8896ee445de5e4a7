/**
 * Offering many jobs on one stream: pipelined, bounded in flight, and mended when it breaks.
 *
 * The pump reads the offers, keeps those that are unanswered, and sends them again, with the same `request_id`s, after
 * the stream broke.
 */
import { create } from "@bufbuild/protobuf";
import { errorFrom, KeyworkError, unanswered } from "../errors.js";
import {
  type SubmitOfferResult,
  SubmitOfferSchema,
  type SubmitStreamRequest,
  SubmitStreamRequestSchema,
} from "../generated/keywork/v1/work_queue_pb.js";
import { type SubmitAnswer, submitAnswer } from "../job.js";
import { tryOffer } from "./batch.js";
import { Bell } from "./bell.js";
import type { CallOptions, Core } from "./core.js";
import { Patience, pauseWithin } from "./patience.js";
import type { Offer, Submit } from "./submit.js";

/** The most offers that are unanswered at a time; servers stop reading at 4,096. */
const WINDOW = 4_000;
/** What one message holds at most. */
const MESSAGE_OFFERS = 256;
const MESSAGE_BYTES = 1 << 20;
/** Answers that the caller has not taken yet. */
const ANSWERS = 1_024;
/** The least wait before an offer is made again after its own error. */
const ITEM_PAUSE_MS = 100;

/** One answer, with the offer's place in the order of the offers. */
export type SubmitStreamAnswer = SubmitAnswer & { readonly index: number };

/** Offers jobs as they come, and yields each answer as soon as it is there. */
export async function* submitStream(
  core: Core,
  submits: Iterable<Submit> | AsyncIterable<Submit>,
  options: CallOptions,
): AsyncGenerator<SubmitStreamAnswer, void> {
  const pump = new Pump(core, options);
  try {
    yield* pump.answers(submits);
  } finally {
    pump.stop();
  }
}

/** Offers many jobs, and answers in their order. */
export async function submitMany(
  core: Core,
  submits: Iterable<Submit> | AsyncIterable<Submit>,
  options: CallOptions,
): Promise<SubmitAnswer[]> {
  const answers: SubmitAnswer[] = [];
  for await (const { index, ...answer } of submitStream(core, submits, options)) {
    answers[index] = answer as SubmitAnswer;
  }
  return answers;
}

interface Flying {
  readonly offer: Offer;
  readonly since: number;
  /** Some try of it may have had an effect. */
  doubt: boolean;
}

/** The stream's state, which outlives any one connection. */
class Pump {
  readonly #core: Core;
  readonly #signal: AbortSignal | undefined;
  readonly #patience: Patience;
  /** Rings at every change. */
  readonly #bell = new Bell();
  /** Unanswered, by their place in the order, which is their correlation id too. */
  readonly #flying = new Map<number, Flying>();
  /** Those of them that are to be sent. */
  #ready: number[] = [];
  readonly #answers: SubmitStreamAnswer[] = [];
  readonly #timers = new Set<NodeJS.Timeout>();
  #next = 0;
  #exhausted = false;
  #stopped = false;
  /** No server could be reached for too long, or it refuses the stream: every further offer ends so. */
  #refused: KeyworkError | undefined;
  #failure: { readonly thrown: unknown } | undefined;
  #connection: AbortController | undefined;
  /** The server that it is with. */
  #place = 0;

  constructor(core: Core, { signal }: CallOptions) {
    this.#core = core;
    this.#signal = signal;
    this.#patience = new Patience(core, signal);
  }

  async *answers(
    submits: Iterable<Submit> | AsyncIterable<Submit>,
  ): AsyncGenerator<SubmitStreamAnswer, void> {
    this.#signal?.throwIfAborted();
    const onAbort = () => this.#fail(this.#signal?.reason);
    this.#signal?.addEventListener("abort", onAbort, { once: true });
    // Their fate: both end with the answers, and what they throw is the answers' failure.
    this.#feed(submits).catch((thrown: unknown) => this.#fail(thrown));
    this.#run().catch((thrown: unknown) => this.#fail(thrown));
    try {
      for (;;) {
        const rung = this.#bell.wait();
        if (this.#failure !== undefined) throw this.#failure.thrown;
        const ready = this.#answers.splice(0);
        if (ready.length > 0) {
          this.#bell.ring();
          yield* ready;
        } else if (this.#exhausted && this.#flying.size === 0) {
          return;
        } else {
          await rung;
        }
      }
    } finally {
      this.#signal?.removeEventListener("abort", onAbort);
    }
  }

  stop(): void {
    this.#stopped = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#connection?.abort();
    this.#bell.ring();
  }

  #fail(thrown: unknown): void {
    this.#failure ??= { thrown };
    this.#bell.ring();
  }

  /** Takes offers in as long as there is room for them. */
  async #feed(submits: Iterable<Submit> | AsyncIterable<Submit>): Promise<void> {
    for await (const submit of submits) {
      this.#take(submit);
      while (!this.#hasRoom() && !this.#stopped) await this.#bell.wait();
      if (this.#stopped) return;
    }
    this.#exhausted = true;
    this.#bell.ring();
  }

  #hasRoom(): boolean {
    return this.#flying.size < WINDOW && this.#answers.length < ANSWERS;
  }

  #take(submit: Submit): void {
    const index = this.#next++;
    const offer = this.#refused ?? tryOffer(this.#core, submit);
    if (offer instanceof KeyworkError) {
      this.#answers.push({ index, error: offer });
    } else {
      // While no answer is due, patience does not count.
      if (this.#flying.size === 0) this.#patience.renew();
      this.#flying.set(index, { offer, since: performance.now(), doubt: false });
      this.#ready.push(index);
    }
    this.#bell.ring();
  }

  /** Keeps a connection for as long as there is something to send. */
  async #run(): Promise<void> {
    for (;;) {
      while (this.#flying.size === 0 && !this.#exhausted && !this.#stopped) await this.#bell.wait();
      if (this.#stopped || this.#flying.size === 0) return;
      const error = await this.#connect();
      if (error === undefined || this.#stopped) return;
      if (this.#flying.size === 0) continue;
      for (const flying of this.#flying.values()) flying.doubt ||= !error.hasNoSideEffects();
      try {
        await this.#patience.after(error, this.#place);
      } catch (thrown) {
        return this.#giveUp(errorFrom(thrown));
      }
      this.#ready = [...this.#flying.keys()];
    }
  }

  /** Works on one stream until everything is answered or it breaks. */
  async #connect(): Promise<KeyworkError | undefined> {
    const place = this.#core.channels.place();
    this.#place = place;
    const connection = new AbortController();
    this.#connection = connection;
    const silence = this.#watchSilence(connection);
    try {
      const requests = this.#requests(connection.signal);
      const stream = this.#core.raw().workQueue.submitStream(requests, {
        signal: connection.signal,
        timeoutMs: 0,
      });
      for await (const { results } of stream) {
        silence.heard();
        this.#patience.renew();
        this.#core.channels.answered(place);
        for (const result of results) this.#answered(result);
        this.#bell.ring();
        if (this.#exhausted && this.#flying.size === 0) return undefined;
      }
      return this.#core.failed(unanswered("the server ended the submit stream", "UNAVAILABLE"), place);
    } catch (thrown) {
      const cause: unknown = connection.signal.aborted ? connection.signal.reason : thrown;
      return this.#core.failed(cause, place);
    } finally {
      silence.stop();
      connection.abort();
      this.#bell.ring();
    }
  }

  /** Ends the connection when offers stay unanswered and nothing is heard for the client's call timeout. */
  #watchSilence(connection: AbortController) {
    const limit = this.#core.options.callTimeoutMs;
    let heard = performance.now();
    const look = () => {
      if (this.#flying.size === 0) heard = performance.now();
      if (performance.now() - heard < limit) return;
      connection.abort(unanswered("the server fell silent on the submit stream"));
    };
    const timer = setInterval(look, Math.max(1, limit / 10));
    return {
      heard: () => {
        heard = performance.now();
      },
      stop: () => clearInterval(timer),
    };
  }

  async *#requests(over: AbortSignal): AsyncGenerator<SubmitStreamRequest, void> {
    while (!over.aborted && !this.#stopped) {
      const rung = this.#bell.wait();
      const message = this.#message();
      if (message.offers.length > 0) yield message;
      else await rung;
    }
  }

  /** The next message: what is ready, as far as it fits. */
  #message(): SubmitStreamRequest {
    const message = create(SubmitStreamRequestSchema);
    let bytes = 0;
    let taken = 0;
    for (const index of this.#ready) {
      if (message.offers.length === MESSAGE_OFFERS || bytes > MESSAGE_BYTES) break;
      taken += 1;
      const submit = this.#flying.get(index)?.offer.request;
      if (submit === undefined) continue;
      bytes += submit.payload.length;
      message.offers.push(create(SubmitOfferSchema, { correlationId: BigInt(index), submit }));
    }
    this.#ready.splice(0, taken);
    return message;
  }

  #answered({ correlationId, result }: SubmitOfferResult): void {
    const index = Number(correlationId);
    const flying = this.#flying.get(index);
    if (flying === undefined) return;
    const answer = submitAnswer(result, flying.offer.ownId);
    if (answer.error !== undefined && this.#offerAgain(index, flying, answer.error)) return;
    this.#flying.delete(index);
    const told = answer.error ? { error: answer.error.withDoubt(flying.doubt) } : answer;
    this.#answers.push({ index, ...told });
  }

  /** An outage that only one offer met: it is made again, until the client's submit deadline. */
  #offerAgain(index: number, flying: Flying, error: KeyworkError): boolean {
    if (!error.isOutage()) return false;
    flying.doubt ||= !error.hasNoSideEffects();
    const left = flying.since + this.#core.options.submitDeadlineMs - performance.now();
    const pause = pauseWithin(left, Math.max(error.retryAfterMs ?? 0, ITEM_PAUSE_MS));
    if (pause === undefined) return false;
    this.#core.warnOfOutage(error, this.#place);
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      this.#ready.push(index);
      this.#bell.ring();
    }, pause);
    this.#timers.add(timer);
    return true;
  }

  #giveUp(error: KeyworkError): void {
    for (const [index, flying] of this.#flying) {
      this.#answers.push({ index, error: error.withDoubt(flying.doubt) });
    }
    this.#flying.clear();
    this.#refused = error.unsent;
    this.#bell.ring();
  }
}
