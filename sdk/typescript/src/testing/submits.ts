/** Submits to the fake server: alone, in batches, on a stream. */
import { clone, create } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { ConnectError } from "@connectrpc/connect";
import { codeNumber } from "../errors.js";
import { type Job, JobSchema } from "../generated/keywork/v1/job_pb.js";
import {
  OnConflict,
  SubmitOutcome,
  type SubmitRequest,
  type SubmitResponse,
  SubmitResponseSchema,
  type SubmitResult,
  SubmitResultSchema,
  type SubmitStreamRequest,
  type SubmitStreamResponse,
  SubmitStreamResponseSchema,
} from "../generated/keywork/v1/work_queue_pb.js";
import { durationOf, msOf } from "../wire.js";
import type { Fake } from "./fake.js";
import { isQueueName, type State } from "./state.js";
import { badField, type FakeStatus, notServedYet, outage, statusError } from "./status.js";

/** The largest payload of a queue that does not say otherwise. */
const PAYLOAD_BYTES = 524_288;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** How a submit is answered; `broken`: the stream or the call breaks. */
type Answer = SubmitResponse | FakeStatus | "broken";

/** Offers one job, with the fault that the script has for it. */
export function submit(state: State, request: SubmitRequest): Answer {
  state.seen.submits.push(request.requestId);
  const fault = state.script.submitFaults.shift();
  if (fault === undefined) return submitTruly(state, request);
  if (fault === "unavailable") return outage("none");
  if (typeof fault !== "string") return fault;
  submitTruly(state, request);
  return fault === "broken" ? "broken" : outage("unknown");
}

/** For a call that is not part of a stream. */
export function alone(answer: Answer): SubmitResponse {
  if (answer === "broken") throw statusError(outage("unknown"));
  if ("$typeName" in answer) return answer;
  throw statusError(answer);
}

/** For one item of many. */
export function ofMany(answer: Answer): SubmitResult {
  const status = answer === "broken" ? outage("unknown") : answer;
  if ("$typeName" in status) {
    return create(SubmitResultSchema, { result: { case: "response", value: status } });
  }
  const error = {
    code: codeNumber(status.code),
    message: status.message ?? "",
    reason: status.reason ?? "",
    field: status.violations?.[0]?.field ?? "",
    sideEffectsUnknown: status.sideEffects === "unknown",
    ...(status.retryAfterMs !== undefined && { retryAfter: durationOf(status.retryAfterMs, "retryAfter") }),
  };
  return create(SubmitResultSchema, { result: { case: "error", value: error } });
}

function submitTruly(state: State, request: SubmitRequest): SubmitResponse | FakeStatus {
  const refusal = check(state, request);
  if (refusal !== undefined) return refusal;
  const queue = state.queue(request.queue);
  const before = queue.accepted.get(request.requestId);
  if (before !== undefined) return response(SubmitOutcome.DUPLICATE, before);
  const busy = queue.jobs.get(request.key);
  if (busy === undefined) return response(SubmitOutcome.CREATED, state.accept(request, delayOf(request)));
  if (request.onConflict === OnConflict.FAIL) {
    return { code: "ALREADY_EXISTS", reason: "KEY_BUSY", message: "the key is busy" };
  }
  return response(SubmitOutcome.ALREADY_OUTSTANDING, busy.job);
}

/** What servers refuse, so that a test finds it before they do. */
function check(state: State, request: SubmitRequest): FakeStatus | undefined {
  if (!isQueueName(request.queue)) return badField("queue", "must match [a-z0-9][a-z0-9_-]{0,63}");
  const bytes = Buffer.byteLength(request.key);
  if (bytes === 0 || bytes > 512) return badField("key", "must have 1 to 512 bytes");
  if (request.requestId !== "" && !UUID.test(request.requestId))
    return badField("request_id", "must be a UUID");
  if (request.maxAttempts > 1_000) return badField("max_attempts", "must be from 1 to 1000");
  const limit = state.queues.get(request.queue)?.config?.maxPayloadBytes ?? PAYLOAD_BYTES;
  const { length } = request.payload;
  if (length > limit) return badField("payload", `has ${length} bytes; the queue's limit is ${limit}`);
  if (request.onConflict === OnConflict.RERUN || request.onConflict === OnConflict.REPLACE) {
    return notServedYet(OnConflict[request.onConflict]);
  }
  return undefined;
}

function delayOf({ start }: SubmitRequest): number {
  if (start.case === "delay") return msOf(start.value);
  return start.case === "startAt" ? Math.max(0, timestampMs(start.value) - Date.now()) : 0;
}

/** The outcome, naming the job without its payload. */
function response(outcome: SubmitOutcome, job: Job): SubmitResponse {
  const named = clone(JobSchema, job);
  named.payload = new Uint8Array();
  return create(SubmitResponseSchema, { outcome, job: named });
}

export async function* submitStream(
  fake: Fake,
  requests: AsyncIterable<SubmitStreamRequest>,
): AsyncGenerator<SubmitStreamResponse, void> {
  for await (const { offers } of requests) {
    const answer = create(SubmitStreamResponseSchema);
    for (const { correlationId, submit: request } of offers) {
      if (request === undefined) continue;
      const result = fake.change((state) => submit(state, request));
      if (result === "broken") {
        yield answer;
        throw new ConnectError("the stream breaks", codeNumber("UNAVAILABLE"));
      }
      answer.results.push({
        $typeName: "keywork.v1.SubmitOfferResult",
        correlationId,
        result: ofMany(result),
      });
    }
    yield answer;
  }
}
