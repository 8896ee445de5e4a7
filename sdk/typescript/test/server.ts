/** A real server of its own for a test: the built `keywork`, with the nats-server that it runs for itself. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "../src/index.js";

/** The built `keywork`; without it the tests of this kind are skipped. */
export const KEYWORK_BIN = process.env["KEYWORK_BIN"];

export class RealServer implements AsyncDisposable {
  readonly endpoint: string;
  readonly #dataDir: string;
  #process: ChildProcess | undefined;

  private constructor(
    readonly port: number,
    dataDir: string,
  ) {
    this.endpoint = `http://127.0.0.1:${port}`;
    this.#dataDir = dataDir;
  }

  static async start(): Promise<RealServer> {
    const server = new RealServer(await freePort(), await mkdtemp(join(tmpdir(), "keywork-test-")));
    await server.start();
    return server;
  }

  /** Starts it, again after a kill, and waits until it serves. */
  async start(): Promise<void> {
    const listen = this.endpoint.slice("http://".length);
    const options = ["serve", "--listen", listen, "--data-dir", this.#dataDir, "--log", "warn"];
    this.#process = spawn(KEYWORK_BIN as string, options, { stdio: ["ignore", "inherit", "inherit"] });
    await using client = new Client({ endpoints: [this.endpoint], submitDeadlineMs: 30_000 });
    await client.submit({ queue: "up", key: "up" });
  }

  /** Ends it with that signal, and waits until it is gone. */
  async kill(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const exit = once(child, "exit");
    child.kill(signal);
    await exit;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill("SIGTERM");
    await rm(this.#dataDir, { recursive: true, force: true, maxRetries: 5 });
  }
}

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}
