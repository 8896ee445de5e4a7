/** The examples are complete programs, and do what they say. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { Client } from "../src/index.js";
import { FakeServer } from "../src/testing/index.js";
import { Log } from "./support.js";

/** An example that runs. */
class Program implements AsyncDisposable {
  readonly lines = new Log<string>();
  readonly #child: ChildProcess;
  readonly #exit: Promise<unknown[]>;

  constructor(file: string, server?: FakeServer) {
    const path = new URL(`../examples/${file}.js`, import.meta.url).pathname;
    const env = { ...process.env, ...(server && { KEYWORK_SERVER: server.endpoint }) };
    this.#child = spawn(process.execPath, [path], { env, stdio: ["ignore", "pipe", "pipe"] });
    this.#exit = once(this.#child, "exit");
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.setEncoding("utf8").on("data", (text: string) => {
        for (const line of text.split("\n").filter(Boolean)) this.lines.add(line);
      });
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async exitCode(): Promise<number> {
    await this.#exit;
    return this.#child.exitCode ?? -1;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exit;
  }
}

test("quickstart", async () => {
  await using server = await FakeServer.start();
  await using program = new Program("quickstart", server);
  await server.until("the job to complete", (seen) => seen.settled("complete").includes("cluster-eu-1"));
  program.signal("SIGTERM");
  assert.equal(await program.exitCode(), 0);
  assert.deepEqual(program.lines.all, ["cluster-eu-1, attempt 1"]);
});

test("batch_submit", async () => {
  await using server = await FakeServer.start();
  await using program = new Program("batch_submit", server);
  assert.equal(await program.exitCode(), 0);
  assert.deepEqual(program.lines.all, ["accepted 10000, busy 0, failed 0"]);
});

test("long_job", async () => {
  await using server = await FakeServer.start({ leaseDurationMs: 1_500 });
  await using client = server.client();
  await client.submit({ queue: "rebuild", key: "tenant", payload: "3" });
  await client.submit({ queue: "rebuild", key: "wrong", payload: "three" });
  await using program = new Program("long_job", server);
  await server.until("the job to complete", (seen) => seen.settled("complete").includes("tenant"));
  assert.equal(server.dead("rebuild")[0]?.job.key, "wrong");
  assert.equal(server.seen.expired, 0);
  program.signal("SIGTERM");
  assert.equal(await program.exitCode(), 0);
  const [dead, ...rest] = program.lines.all.filter((line) => !line.startsWith("tenant step "));
  assert.match(
    dead ?? "",
    /rebuild\/wrong failed at attempt 1 of 10, it is a dead letter: the payload is no number/,
  );
  assert.deepEqual([program.lines.all.length, rest], [4, []]);
});

test("graceful_shutdown", async () => {
  await using server = await FakeServer.start();
  await using client = new Client(server.endpoint);
  await client.submit({ queue: "sync", key: "a" });
  await using program = new Program("graceful_shutdown", server);
  await program.lines.until("the handler", (lines) => lines.includes("started a"));
  program.signal("SIGTERM");
  await program.lines.until("the drain", (lines) => lines.some((line) => line.includes("draining")));
  program.signal("SIGTERM");
  assert.equal(await program.exitCode(), 1);
  assert.deepEqual(server.seen.settled("release"), ["a"]);
});

test("testing", async () => {
  await using program = new Program("testing");
  assert.equal(await program.exitCode(), 0);
  assert.deepEqual(program.lines.all, ["tested"]);
});
