/** What a fake session is sent: a queue that ends, with or without an error. */
import type { ConnectError } from "@connectrpc/connect";
import { Bell } from "../client/bell.js";

export class Outbound<T> implements AsyncIterable<T> {
  readonly #bell = new Bell();
  readonly #queue: T[] = [];
  #end: { readonly error: ConnectError | undefined } | undefined;

  send(message: T): void {
    this.#queue.push(message);
    this.#bell.ring();
  }

  /** Ends after what was sent; the first end counts. */
  end(error?: ConnectError): void {
    this.#end ??= { error };
    this.#bell.ring();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    for (;;) {
      const rung = this.#bell.wait();
      yield* this.#queue.splice(0);
      if (this.#queue.length > 0) continue;
      if (this.#end?.error !== undefined) throw this.#end.error;
      if (this.#end !== undefined) return;
      await rung;
    }
  }
}
