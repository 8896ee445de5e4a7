/** The handlers that scenarios choose from, and the way to end those that wait. */
import {
  type Context,
  Fail,
  type Handler,
  type HandlerResult,
  type Job,
  Release,
  Rerun,
  Retry,
} from "../../../../sdk/typescript/dist/index.js";
import { type Command, number, say, sayRefused, text } from "./protocol.js";
import { activeTrace } from "./tracing.js";

interface Waiting {
  readonly key: string;
  finish(command: Command): void;
}

/** Oldest first. */
const waiting: Waiting[] = [];
/** Jobs of which nothing is to be said, for throughput. */
const quiet = new Set<string>();

const HANDLERS = ["wait", "complete", "throw", "burn", "deaf"];

/** A handler that does what `chosen` says, or a job's attribute. */
export function handlerFor(chosen: string): Handler | undefined {
  if (!HANDLERS.includes(chosen)) return undefined;
  return (context, job) => {
    const how = job.attributes["handler"] ?? chosen;
    if (how === "complete") {
      quiet.add(job.id);
      return undefined;
    }
    return loudly(how, context, job);
  };
}

/** False: nothing is to be said of this job's settlement. */
export function isLoud(jobId: string): boolean {
  return !quiet.delete(jobId);
}

/** Ends the oldest waiting handler of a key. */
export function finish(command: Command): void {
  const place = waiting.findIndex(({ key }) => key === command["key"]);
  if (place === -1) sayRefused(command.call, "NOT_WAITING", `no handler waits for ${text(command["key"])}`);
  else waiting.splice(place, 1)[0]?.finish(command);
}

async function loudly(how: string, context: Context, job: Job): Promise<HandlerResult> {
  say("started", {
    ...nameOf(job),
    queue: job.queue,
    attempt: job.attempt,
    payload: job.text(),
    attributes: job.attributes,
    left_ms: Math.round(context.timeLeftMs),
    trace_id: activeTrace(),
  });
  const cancelled = watch(context, job);
  let call: string | undefined;
  try {
    if (how === "throw") throw new Error("thrown");
    if (how === "burn") {
      burn(Number(job.attributes["ms"] ?? 0));
      return undefined;
    }
    const command = await waitFor(context.signal, job, how === "deaf");
    call = command?.call;
    if (command === undefined) throw new Error("cancelled");
    return resultOf(command);
  } finally {
    if (context.isCancelled) cancelled();
    say("ended", { call, ...nameOf(job) });
  }
}

/** Says `cancelled` once: when the signal is aborted, or when it is called. */
function watch(context: Context, job: Job): () => void {
  let said = false;
  const tell = () => {
    if (said) return;
    said = true;
    say("cancelled", { ...nameOf(job), reason: context.reason });
  };
  context.signal.addEventListener("abort", tell, { once: true });
  return tell;
}

function burn(ms: number): void {
  for (const start = performance.now(); performance.now() - start < ms; );
}

/** The command that ends the handler; none where its cancellation ended it. */
function waitFor(signal: AbortSignal, job: Job, deaf: boolean): Promise<Command | undefined> {
  return new Promise((resolve) => {
    const mine = { key: job.key, finish: resolve };
    waiting.push(mine);
    const onAbort = () => {
      const place = waiting.indexOf(mine);
      if (place !== -1) waiting.splice(place, 1);
      resolve(undefined);
    };
    if (!deaf) signal.addEventListener("abort", onAbort, { once: true });
  });
}

function resultOf(command: Command): HandlerResult {
  const delayMs = typeof command["delay_ms"] === "number" ? command["delay_ms"] : undefined;
  const because = text(command["text"]);
  switch (command["with"] ?? "complete") {
    case "complete":
      return undefined;
    case "retry":
      return new Retry({ because, ...(delayMs !== undefined && { delayMs }) });
    case "fail":
      return new Fail(because);
    case "release":
      return new Release();
    case "rerun":
      return new Rerun({ delayMs: number(delayMs) ?? 0 });
    default:
      throw new Error(because || "an ordinary error");
  }
}

function nameOf(job: Job) {
  return { key: job.key, job: job.id, fencing: Number(job.fencingNumber) };
}
