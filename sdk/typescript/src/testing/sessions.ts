/** Sessions of the fake server: the `Lease` stream. */
import type { HandlerContext } from "@connectrpc/connect";
import {
  GoAwayReason,
  type Hello,
  type LeaseHeartbeat,
  type LeaseRequest,
  type LeaseResponse,
  LostReason,
  type Settlement,
} from "../generated/keywork/v1/work_queue_pb.js";
import { durationOf } from "../wire.js";
import type { Fake } from "./fake.js";
import { Outbound } from "./outbound.js";
import { settle } from "./settlements.js";
import { isQueueName, type Session, type State } from "./state.js";
import { badField, statusError } from "./status.js";

/** One session, from its Hello to the end of either half of its stream. */
export async function* lease(
  fake: Fake,
  requests: AsyncIterable<LeaseRequest>,
  context: HandlerContext,
): AsyncGenerator<LeaseResponse, void> {
  const refusal = fake.change((state) => state.script.refuseSessions.shift());
  if (refusal !== undefined) throw statusError(refusal);
  const messages = requests[Symbol.asyncIterator]();
  const first: IteratorResult<LeaseRequest, unknown> = await messages.next();
  if (first.done || first.value.message.case !== "hello") throw statusError(badField("hello", "comes first"));
  const hello = first.value.message.value;
  const bad = hello.queues.findIndex(({ queue }) => !isQueueName(queue));
  if (bad >= 0) {
    throw statusError(badField(`queues[${bad}].queue`, "must match [a-z0-9][a-z0-9_-]{0,63}"));
  }
  const outbound = new Outbound<LeaseResponse>();
  const id = fake.change((state) => open(state, hello, outbound));
  const close = () => {
    outbound.end();
    fake.change((state) => forget(state, id));
  };
  context.signal.addEventListener("abort", close, { once: true });
  // Its fate: it ends with the client's half of the stream.
  void read(fake, id, messages).finally(close);
  try {
    yield* outbound;
  } finally {
    close();
  }
}

async function read(fake: Fake, id: number, messages: AsyncIterator<LeaseRequest>): Promise<void> {
  try {
    for (;;) {
      const next: IteratorResult<LeaseRequest, unknown> = await messages.next();
      if (next.done) return;
      fake.change((state) => onMessage(state, id, next.value.message));
    }
  } catch {
    // The client has gone.
  }
}

function open(state: State, hello: Hello, outbound: Outbound<LeaseResponse>): number {
  supersede(state, hello.workerId);
  const welcome = state.script.unwelcomeSessions === 0;
  if (!welcome) state.script.unwelcomeSessions -= 1;
  const session: Session = {
    id: state.number(),
    workerId: hello.workerId,
    queues: hello.queues.map(({ queue }) => queue),
    outbound,
    // One that is not welcome gets no deliveries either.
    capacity: welcome ? hello.capacity : 0,
    draining: false,
  };
  state.seen.capacity = hello.capacity;
  state.seen.hellos.push(hello);
  state.sessions.set(session.id, session);
  state.seen.sessions = state.sessions.size;
  if (welcome) sayWelcome(state, session.id, hello);
  return session.id;
}

/** A newer session of a worker takes over from an older one. */
function supersede(state: State, workerId: string): void {
  for (const session of [...state.sessions.values()]) {
    if (session.workerId !== workerId) continue;
    state.send(session.id, { case: "goAway", value: { reason: GoAwayReason.SUPERSEDED } });
    state.sessions.delete(session.id);
    session.outbound.end();
  }
}

function sayWelcome(state: State, id: number, hello: Hello): void {
  const { leaseDurationMs, disconnectGraceMs } = state.rules;
  const leaseDuration = durationOf(leaseDurationMs, "leaseDuration");
  const grace =
    disconnectGraceMs === undefined ? {} : { disconnectGrace: durationOf(disconnectGraceMs, "grace") };
  const value = {
    sessionId: String(id),
    workerId: hello.workerId,
    queues: hello.queues.map(({ queue }) => ({ queue, leaseDuration, ...grace })),
    heartbeatInterval: durationOf(leaseDurationMs / 3, "heartbeatInterval"),
    livenessTimeout: durationOf((leaseDurationMs / 3) * 2.5, "livenessTimeout"),
    sessionTicket: Buffer.from(`ticket-${id}`),
    ...state.resume(id, hello),
  };
  state.send(id, { case: "welcome", value });
}

function onMessage(state: State, id: number, message: LeaseRequest["message"]): void {
  const session = state.sessions.get(id);
  if (session === undefined) return;
  switch (message.case) {
    case "capacity":
      state.seen.capacity = message.value.capacity;
      session.capacity = message.value.capacity;
      break;
    case "heartbeat":
      onHeartbeat(state, id, message.value);
      break;
    case "settlements":
      onSettlements(state, id, message.value.settlements);
      break;
    case "drain":
      state.seen.drains += 1;
      session.draining = true;
      state.send(id, { case: "drainAck", value: {} });
      break;
  }
}

function onHeartbeat(state: State, id: number, { sequence, leaseTokens }: LeaseHeartbeat): void {
  state.seen.heartbeats += 1;
  if (state.script.ignoreHeartbeats) return;
  const unconfirmed = state.script.unconfirmedHeartbeats ? leaseTokens : [];
  const confirmed = state.script.unconfirmedHeartbeats ? [] : leaseTokens;
  const gone = confirmed.filter((token) => state.extend(token) === undefined);
  const lost = gone.map((leaseToken) => ({ leaseToken, reason: LostReason.EXPIRED }));
  const sessionTicket = Buffer.from(`ticket-${id}-${sequence}`);
  state.send(id, { case: "heartbeatAck", value: { sequence, lost, sessionTicket, unconfirmed } });
}

function onSettlements(state: State, id: number, settlements: readonly Settlement[]): void {
  state.seen.settlementMessages += 1;
  const results = settlements.map((settlement) => settle(state, settlement));
  const answered = results.filter(() => {
    if (state.script.unansweredSettlements === 0) return true;
    state.script.unansweredSettlements -= 1;
    return false;
  });
  if (answered.length > 0) state.send(id, { case: "settlementResults", value: { results: answered } });
}

function forget(state: State, id: number): void {
  if (!state.sessions.delete(id)) return;
  state.startGrace(id);
  state.seen.sessions = state.sessions.size;
}
