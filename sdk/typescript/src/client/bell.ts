/** A bell: whoever waits goes on at its next ring. */
export class Bell {
  #ring: () => void = () => undefined;
  #rung = this.#next();

  /** Completes at the next ring. */
  wait(): Promise<void> {
    return this.#rung;
  }

  ring(): void {
    const ring = this.#ring;
    this.#rung = this.#next();
    ring();
  }

  #next(): Promise<void> {
    return new Promise((resolve) => {
      this.#ring = resolve;
    });
  }
}
