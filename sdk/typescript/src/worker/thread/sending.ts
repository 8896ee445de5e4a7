/**
 * What the worker says on its stream: Hello, heartbeats, settlements, its capacity, that it drains.
 *
 * Nothing here waits: what finds no room is sent when there is some.
 */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type LeaseRequest, LeaseRequestSchema } from "../../generated/keywork/v1/work_queue_pb.js";
import { VERSION } from "../../version.js";
import { LISTED } from "./beats.js";
import type { Driver } from "./driver.js";
import type { Held } from "./leases.js";

type Up = NonNullable<MessageInitShape<typeof LeaseRequestSchema>["message"]>;

/** Opens the session: claims every lease that is not lost. */
export function sayHello(driver: Driver, now: number): LeaseRequest {
  const { session, data } = driver;
  session.helloSent = now;
  session.capacity = capacityOf(driver);
  return up({
    case: "hello",
    value: {
      workerId: data.workerId,
      queues: data.queues,
      capacity: session.capacity,
      heldLeases: Array.from(driver.leases.held(), (held) => held.token),
      sessionTicket: session.ticket,
      protocolVersion: 1,
      sdkName: "keywork-sdk-typescript",
      sdkVersion: VERSION,
    },
  });
}

/** How many leases the session may hold: a slot is not free while a handler sits in it that lost its lease. */
function capacityOf(driver: Driver): number {
  if (driver.isStopping) return 0;
  return Math.max(0, driver.data.concurrency - driver.leases.occupiedByLost);
}

/** Sends what is due, as far as there is room. */
export function flush(driver: Driver, now: number): void {
  const { session, link, outbox } = driver;
  outbox.onTime(now);
  if (!session.live) return;
  if (session.nextHeartbeat <= now && link.hasRoom) beat(driver, now);
  sayCapacity(driver);
  if (driver.isStopping && !session.drainSent) {
    session.drainSent = link.send(up({ case: "drain", value: {} }));
  }
  // After the drain: what is given back now is not to come to this worker again.
  while (outbox.isReady && link.hasRoom) {
    const settlements = outbox.take(driver.leases);
    if (settlements.length > 0) link.send(up({ case: "settlements", value: { settlements } }));
  }
}

/** Heartbeats go on until the last settlement is confirmed: leases that are being settled are listed too. */
function beat(driver: Driver, now: number): void {
  const held = [...driver.leases.held()];
  driver.session.nextHeartbeat = now + driver.session.heartbeatIntervalMs;
  let from = 0;
  do {
    beatWith(driver, held.slice(from, from + LISTED), now);
    from += LISTED;
  } while (from < held.length);
}

function beatWith(driver: Driver, part: readonly Held[], now: number): void {
  const sequence = driver.beats.sent(
    part.map((held) => held.id),
    now,
  );
  const leaseTokens = part.map((held) => held.token);
  driver.link.send(up({ case: "heartbeat", value: { sequence, leaseTokens } }));
}

function sayCapacity(driver: Driver): void {
  const capacity = capacityOf(driver);
  if (capacity === driver.session.capacity) return;
  if (driver.link.send(up({ case: "capacity", value: { capacity } }))) driver.session.capacity = capacity;
}

function up(message: Up): LeaseRequest {
  return create(LeaseRequestSchema, { message });
}
