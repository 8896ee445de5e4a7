/** What all calls of a client share: its options, its channels, and one try of a call. */
import type { DescService } from "@bufbuild/protobuf";
import { createClient, type Client as RawClient, type CallOptions as RawOptions } from "@connectrpc/connect";
import { errorFrom, type KeyworkError } from "../errors.js";
import { QueueAdmin } from "../generated/keywork/v1/queue_admin_pb.js";
import { Schedules } from "../generated/keywork/v1/schedules_pb.js";
import { WorkQueue } from "../generated/keywork/v1/work_queue_pb.js";
import { named, Outage, say } from "../logger.js";
import { LONGEST_TIMER_MS } from "../options.js";
import { type Channel, Channels } from "./channels.js";
import type { Options } from "./options.js";

/** What any call can be given. */
export interface CallOptions {
  /** Ends the call; it rejects with the signal's reason. What was sent may still take effect. */
  readonly signal?: AbortSignal;
}

/** The generated clients, over a client's connection. None of them retries. */
export interface RawClients {
  readonly workQueue: RawClient<typeof WorkQueue>;
  readonly queueAdmin: RawClient<typeof QueueAdmin>;
  readonly schedules: RawClient<typeof Schedules>;
}

export class Core {
  readonly channels: Channels;
  readonly #outage = new Outage();
  readonly #clients = new WeakMap<Channel, RawClients>();

  constructor(readonly options: Options) {
    this.channels = new Channels(options.servers);
  }

  /** The generated clients of the server in use. */
  raw(): RawClients {
    const channel = this.channels.current();
    let clients = this.#clients.get(channel);
    if (clients === undefined) {
      const of = <S extends DescService>(service: S) => createClient(service, channel.transport);
      clients = { workQueue: of(WorkQueue), queueAdmin: of(QueueAdmin), schedules: of(Schedules) };
      this.#clients.set(channel, clients);
    }
    return clients;
  }

  /**
   * One try of a call, within a time limit, and a turn to the next server where it met an outage. Nothing is repeated
   * here: whether that is safe depends on the call.
   */
  async call<T>(
    call: (clients: RawClients, options: RawOptions) => Promise<T>,
    { signal }: CallOptions = {},
    timeoutMs = this.options.callTimeoutMs,
  ): Promise<T> {
    signal?.throwIfAborted();
    const place = this.channels.place();
    try {
      // On the wire it is a whole number.
      const limit = Math.min(Math.max(1, Math.ceil(timeoutMs)), LONGEST_TIMER_MS);
      const answer = await call(this.raw(), { timeoutMs: limit, ...(signal && { signal }) });
      this.channels.answered(place);
      return answer;
    } catch (thrown) {
      signal?.throwIfAborted();
      throw this.failed(thrown, place);
    }
  }

  /** A call to the server of that place failed. */
  failed(thrown: unknown, place: number): KeyworkError {
    const error = errorFrom(thrown, this.channels.name(place));
    if (error.isOutage()) this.channels.turnAway(place);
    else this.channels.answered(place);
    return error;
  }

  /** Warns now and then that submits are tried again: they may be for as long as their deadline. */
  warnOfOutage(error: KeyworkError, place: number): void {
    if (!this.#outage.isToBeWarnedOf(performance.now())) return;
    const { logger, submitDeadlineMs } = this.options;
    const what = named(this.channels.name(place), error.message);
    say(logger, "warn", `submitting failed, trying again for up to ${submitDeadlineMs / 1_000} s: ${what}`);
  }
}
