/**
 * The lease thread: a worker's session and its heartbeats, started by `Worker` and never imported by a program.
 *
 * It is a file of its own, and an export of the package, so that bundlers can be told of it: see the README.
 */
import { parentPort, workerData } from "node:worker_threads";
import type { ThreadData, ToThread } from "./worker/protocol.js";
import { Driver } from "./worker/thread/driver.js";

if (parentPort !== null) {
  const port = parentPort;
  const driver = new Driver(workerData as ThreadData, {
    post: (messages) => port.postMessage(messages),
    close: () => port.close(),
  });
  port.on("message", (message: ToThread) => driver.receive(message));
}
