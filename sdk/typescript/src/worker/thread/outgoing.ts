/** Messages that HTTP/2 has not taken yet: a short queue that the transport pulls from. */
import type { LeaseRequest } from "../../generated/keywork/v1/work_queue_pb.js";

/** Room for the heartbeats of the largest session, which come in parts. */
const ROOM = 16;

export class Outgoing implements AsyncIterable<LeaseRequest> {
  readonly #first: () => LeaseRequest;
  readonly #onRoom: () => void;
  readonly #queue: LeaseRequest[] = [];
  #waiting: ((result: IteratorResult<LeaseRequest, undefined>) => void) | undefined;
  #begun = false;
  #over = false;

  /** `first` is asked for when the transport can send it; `onRoom` is called when there is room after there was none. */
  constructor(first: () => LeaseRequest, onRoom: () => void) {
    this.#first = first;
    this.#onRoom = onRoom;
  }

  /** The first message was given to the transport. */
  get hasBegun(): boolean {
    return this.#begun;
  }

  get hasRoom(): boolean {
    return this.#begun && !this.#over && this.#queue.length < ROOM;
  }

  /** Takes a message, if there is room. */
  send(message: LeaseRequest): boolean {
    if (!this.hasRoom) return false;
    if (this.#waiting === undefined) {
      this.#queue.push(message);
    } else {
      this.#waiting({ done: false, value: message });
      this.#waiting = undefined;
    }
    return true;
  }

  /** Nothing comes after what was taken. */
  end(): void {
    this.#over = true;
    if (this.#queue.length === 0) this.#waiting?.({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): AsyncIterator<LeaseRequest, undefined> {
    return {
      next: () => this.#next(),
      return: () => this.#stopped(),
      // The transport says so when it cannot send any more.
      throw: () => this.#stopped(),
    };
  }

  #stopped(): Promise<IteratorResult<LeaseRequest, undefined>> {
    this.#over = true;
    return Promise.resolve({ done: true, value: undefined });
  }

  #next(): Promise<IteratorResult<LeaseRequest, undefined>> {
    if (!this.#begun) {
      this.#begun = true;
      return Promise.resolve({ done: false, value: this.#first() });
    }
    const value = this.#queue.shift();
    if (value !== undefined) {
      if (this.#queue.length === ROOM - 1) this.#onRoom();
      return Promise.resolve({ done: false, value });
    }
    if (this.#over) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }
}
