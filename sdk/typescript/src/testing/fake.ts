/** The fake server's state, and a bell that rings at every change of it. */
import { Bell } from "../client/bell.js";
import { type Rules, State } from "./state.js";

export class Fake {
  readonly state: State;
  readonly changed = new Bell();

  constructor(rules: Rules) {
    this.state = new State(rules);
  }

  /** Changes the state and hands out what became ready by it. */
  change<T>(change: (state: State) => T): T {
    const result = change(this.state);
    this.state.dispatch();
    this.changed.ring();
    return result;
  }
}
