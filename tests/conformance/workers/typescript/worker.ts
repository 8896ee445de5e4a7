/** The worker-under-test of the TypeScript SDK: does what the runner says, and says what happens. */
import { createInterface } from "node:readline";
import {
  Client,
  KeyworkError,
  type OnConflict,
  type Submit,
  type Subscription,
  VERSION,
  Worker,
  WorkerError,
  type WorkerEvent,
} from "../../../../sdk/typescript/dist/index.js";
import { callOf } from "./calls.js";
import { finish, handlerFor, isLoud } from "./handlers.js";
import { handlersSeen, submitsSeen } from "./interceptors.js";
import { type Command, number, say, sayError, sayUnsupported, text } from "./protocol.js";
import { tracing, within } from "./tracing.js";

const CAPABILITIES = [
  "worker",
  "submit",
  "submit_many",
  "call",
  "burn",
  "settled_event",
  "signals",
  "interceptors",
  "trace",
];
const STATES = ["connecting", "ready", "degraded", "draining", "stopped"];

let client = new Client();
let worker: Worker | undefined;

const COMMANDS: Readonly<Record<string, (command: Command) => unknown>> = {
  connect,
  start,
  submit,
  submit_many: submitMany,
  throughput,
  finish,
  call,
  drain: () => worker?.drain(),
  release_all: () => worker?.releaseAll(),
  healthy,
  stats,
  exit: () => process.exit(0),
};

function connect(command: Command): void {
  const { call, endpoints, submit_deadline_ms, call_timeout_ms } = command;
  const [submitDeadlineMs, callTimeoutMs] = [number(submit_deadline_ms), number(call_timeout_ms)];
  client = new Client({
    endpoints: endpoints as string[],
    tracing,
    interceptors: command["interceptors"] === true ? [submitsSeen] : [],
    ...(submitDeadlineMs !== undefined && { submitDeadlineMs }),
    ...(callTimeoutMs !== undefined && { callTimeoutMs }),
  });
  say("connected", { call });
}

function start(command: Command): void {
  const chosen = text(command["handler"]) || "wait";
  const handler = handlerFor(chosen);
  if (handler === undefined) {
    sayUnsupported(command.call, `the handler ${chosen}`);
    return;
  }
  const { worker_id: workerId, shutdown_grace_ms: shutdownGraceMs } = command;
  const concurrency = number(command["concurrency"]);
  worker = new Worker({
    client,
    handler,
    onEvent,
    interceptors: command["interceptors"] === true ? [handlersSeen] : [],
    queues: command["queues"] as (string | Subscription)[],
    ...(concurrency !== undefined && { concurrency }),
    ...(typeof workerId === "string" && { workerId }),
    ...(typeof shutdownGraceMs === "number" && { shutdownGraceMs }),
  });
  void run(worker);
}

/** Runs the worker as a program does, and ends with it. */
async function run(worker: Worker): Promise<void> {
  try {
    await worker.run();
    say("stopped", { ok: true, code: "", message: "" });
    process.exit(0);
  } catch (thrown) {
    say("stopped", { ok: false, code: codeOf(thrown), message: String(thrown) });
    process.exit(1);
  }
}

function codeOf(thrown: unknown): string {
  if (!(thrown instanceof WorkerError)) return "INTERNAL";
  return thrown.cause instanceof KeyworkError ? thrown.cause.code : thrown.kind;
}

function onEvent(event: WorkerEvent): void {
  if (STATES.includes(event.type)) {
    say("state", { state: event.type, ...("error" in event && { error: String(event.error) }) });
  } else if (event.type === "settled" && isLoud(event.jobId)) {
    const { queue, key, jobId, fencingNumber, outcome } = event;
    say("settled", { queue, key, job: jobId, fencing: Number(fencingNumber), outcome });
  } else if (event.type === "lease_lost") {
    say("lease_lost", { queue: event.queue, key: event.key, reason: event.reason ?? "" });
  } else if (event.type === "handler_ignores_cancellation" || event.type === "settlement_rejected") {
    say(event.type, { queue: event.queue, key: event.key });
  }
}

async function submit(command: Command): Promise<void> {
  const { outcome, job } = await within(text(command["traceparent"]), () => client.submit(submitOf(command)));
  say("submitted", { call: command.call, outcome, job: job.id, state: job.state });
}

function submitOf(command: Command): Submit {
  const { attributes, request_id: requestId, on_conflict: onConflict } = command;
  const [delayMs, maxAttempts] = [number(command["delay_ms"]), number(command["max_attempts"])];
  const expiresIn = number(command["expires_in_ms"]);
  return {
    queue: text(command["queue"]),
    key: text(command["key"]),
    payload: text(command["payload"]),
    attributes: (attributes ?? {}) as Record<string, string>,
    ...(typeof requestId === "string" && { requestId }),
    ...(typeof onConflict === "string" && { onConflict: onConflict as OnConflict }),
    ...(delayMs !== undefined && { delayMs }),
    ...(maxAttempts !== undefined && { maxAttempts }),
    ...(expiresIn !== undefined && { expiresAt: new Date(Date.now() + expiresIn) }),
  };
}

async function submitMany(command: Command): Promise<void> {
  const { keys, call } = command;
  const answers = await client.submitMany((keys as string[]).map((key) => submitOf({ ...command, key })));
  const outcomes = answers.map(({ result, error }) => result?.outcome ?? (error?.reason || error?.code));
  say("submitted_many", { call, outcomes });
}

async function throughput(command: Command): Promise<void> {
  const [queue, prefix] = [text(command["queue"]), text(command["prefix"])];
  const payload = new Uint8Array(256);
  const length = number(command["jobs"]) ?? 0;
  const submits = Array.from({ length }, (_, place) => ({ queue, key: `${prefix}-${place}`, payload }));
  const start = performance.now();
  const answers = await client.submitMany(submits);
  const created = answers.filter(({ result }) => result?.outcome === "CREATED").length;
  say("submitted_many", { call: command.call, created, ms: Math.round(performance.now() - start) });
}

async function call(command: Command): Promise<void> {
  const rpc = text(command["rpc"]);
  const answer = callOf(client, rpc, (command["args"] ?? {}) as Record<string, unknown>);
  if (answer === undefined) sayUnsupported(command.call, `the call ${rpc}`);
  else say("answered", { call: command.call, result: (await answer) ?? null });
}

function healthy({ call }: Command): void {
  if (worker === undefined) sayUnsupported(call, "the health of no worker");
  else say("healthy", { call, value: worker.healthy() });
}

function stats({ call }: Command): void {
  if (worker === undefined) {
    sayUnsupported(call, "the counts of no worker");
    return;
  }
  const { started, settled, leasesLost, droppedResults, sessions } = worker.counts();
  say("stats", {
    call,
    started,
    settled,
    leases_lost: leasesLost,
    dropped_results: droppedResults,
    sessions,
  });
}

async function follow(line: string): Promise<void> {
  const command = JSON.parse(line) as Command;
  try {
    const known = COMMANDS[command.do];
    if (known === undefined) sayUnsupported(command.call, `the command ${command.do}`);
    else await known(command);
  } catch (thrown) {
    sayError(command.call, thrown);
  }
}

const runtime = `Node ${process.version}`;
say("hello", { sdk: "typescript", version: VERSION, runtime, capabilities: CAPABILITIES });
if (process.argv.includes("--list-capabilities")) process.exit(0);
const commands = createInterface({ input: process.stdin });
commands.on("line", (line) => void follow(line));
commands.on("close", () => process.exit(0));
