/** Recurring submits. Servers that do not serve them yet answer UNIMPLEMENTED. */
import { create } from "@bufbuild/protobuf";
import { uint32 } from "../fields.js";
import { ScheduleSchema, type Schedule as WireSchedule } from "../generated/keywork/v1/schedules_pb.js";
import { dateOf } from "../wire.js";
import type { CallOptions, Core } from "./core.js";
import { type PageOptions, paged } from "./pages.js";
import { type Submit, submitRequest } from "./submit.js";

/** A schedule to keep. */
export interface ScheduleInput {
  /** The name: `[a-z0-9][a-z0-9_-]{0,63}`. */
  readonly name: string;
  /** `@every 30s`, or six cron fields: second, minute, hour, day of month, month, day of week. */
  readonly expression: string;
  /** IANA time zone of a cron expression. Default: UTC. */
  readonly timeZone?: string;
  /** What to submit each time, without a `requestId`. */
  readonly submit: Submit;
}

/** One recurring submit. */
export interface Schedule {
  readonly name: string;
  readonly expression: string;
  readonly timeZone: string;
  /** The queue and the key that it submits to. */
  readonly queue: string;
  readonly key: string;
  /** When it fires next. */
  readonly nextAt: Date | undefined;
}

export async function putSchedule(core: Core, input: ScheduleInput, options: CallOptions): Promise<Schedule> {
  const schedule = create(ScheduleSchema, {
    name: input.name,
    expression: input.expression,
    timeZone: input.timeZone ?? "",
    submit: submitRequest(input.submit),
  });
  const answer = await core.call(
    (clients, call) => clients.schedules.putSchedule({ schedule }, call),
    options,
  );
  return scheduleOf(answer.schedule);
}

export async function getSchedule(core: Core, name: string, options: CallOptions): Promise<Schedule> {
  const answer = await core.call((clients, call) => clients.schedules.getSchedule({ name }, call), options);
  return scheduleOf(answer.schedule);
}

export function listSchedules(core: Core, options: CallOptions & PageOptions) {
  const pageSize = uint32(options.pageSize ?? 0, "pageSize");
  return paged(async (pageToken) => {
    const request = { pageSize, pageToken };
    const answer = await core.call(
      (clients, call) => clients.schedules.listSchedules(request, call),
      options,
    );
    return { items: answer.schedules.map(scheduleOf), nextPageToken: answer.nextPageToken };
  });
}

export async function deleteSchedule(core: Core, name: string, options: CallOptions): Promise<void> {
  await core.call((clients, call) => clients.schedules.deleteSchedule({ name }, call), options);
}

function scheduleOf(wire: WireSchedule | undefined): Schedule {
  return {
    name: wire?.name ?? "",
    expression: wire?.expression ?? "",
    timeZone: wire?.timeZone ?? "",
    queue: wire?.submit?.queue ?? "",
    key: wire?.submit?.key ?? "",
    nextAt: dateOf(wire?.nextAt),
  };
}
