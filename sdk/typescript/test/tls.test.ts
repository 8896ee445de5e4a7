/** Servers behind TLS: what a client is told about trust holds for it and for its workers. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createSecureServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { Client, type KeyworkError, Worker } from "../src/index.js";
import { Fake } from "../src/testing/fake.js";
import { FakeServer } from "../src/testing/index.js";
import { routes } from "../src/testing/services.js";
import { Log, within } from "./support.js";

/** A fake server behind a certificate of its own, which names 127.0.0.1 and keywork.test; valid for a century. */
async function secureServer() {
  const [cert, key] = await Promise.all(
    ["cert.pem", "key.pem"].map((file) =>
      readFile(new URL(`../../test/tls/${file}`, import.meta.url), "utf8"),
    ),
  );
  const fake = new Fake({ leaseDurationMs: 15_000, disconnectGraceMs: undefined, retryDelayMs: 10 });
  const seen: unknown[] = [];
  const adapter = connectNodeAdapter({ routes: routes(fake) });
  const server = createSecureServer({ cert: cert as string, key: key as string }, (request, response) => {
    seen.push(request.headers["authorization"]);
    adapter(request, response);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const endpoint = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { endpoint, cert: cert as string, seen, [Symbol.dispose]: () => server.close() };
}

test("a client and its worker trust the authority that they are told of, and send the client's headers", async () => {
  using server = await secureServer();
  const headers = { authorization: "Bearer secret" };
  await using client = new Client({ endpoints: [server.endpoint], headers, tls: { ca: server.cert } });
  await client.submit({ queue: "q", key: "a" });
  const runs = new Log<string>();
  const worker = new Worker({ client, queues: ["q"], handler: (_context, job) => runs.add(job.key) });
  const run = worker.runUntil();
  await runs.until("the job", (all) => all.length === 1);
  worker.drain();
  await within("the end", run);
  assert.deepEqual(server.seen, [headers.authorization, headers.authorization], "the submit and the session");
});

test("a server that nobody vouches for is not talked to", async () => {
  using server = await secureServer();
  await using client = new Client({ endpoints: [server.endpoint], submitDeadlineMs: 200 });
  await assert.rejects(client.submit({ queue: "q", key: "a" }), (error: KeyworkError) => {
    assert.match(error.message, /cannot be reached: self-signed certificate/);
    return error.hasNoSideEffects();
  });
  assert.deepEqual(server.seen, []);
});

test("an https:// endpoint without TLS says what is wrong", async () => {
  await using server = await FakeServer.start();
  const endpoints = [server.endpoint.replace("http", "https")];
  await using client = new Client({ endpoints, submitDeadlineMs: 200 });
  await assert.rejects(client.submit({ queue: "q", key: "a" }), (error: KeyworkError) => {
    assert.match(error.message, /does not speak TLS; is http:\/\/ meant/);
    return error.hasNoSideEffects();
  });
});

test("something that is no Keywork server is told as that", async () => {
  const web = createServer((_request, response) => response.end("welcome"));
  await once(web.listen(0, "127.0.0.1"), "listening");
  const endpoint = `http://127.0.0.1:${(web.address() as AddressInfo).port}`;
  await using client = new Client({ endpoints: [endpoint], submitDeadlineMs: 200 });
  await assert.rejects(client.submit({ queue: "q", key: "a" }), /no Keywork server/);
  web.close();
});

test("the name in the certificate can be another than the endpoint's", async () => {
  using server = await secureServer();
  const endpoints = [server.endpoint.replace("127.0.0.1", "localhost")];
  await using strict = new Client({ endpoints, tls: { ca: server.cert }, submitDeadlineMs: 200 });
  await assert.rejects(strict.submit({ queue: "q", key: "a" }), /localhost/);
  const tls = { ca: Buffer.from(server.cert), servername: "keywork.test" };
  await using client = new Client({ endpoints, tls });
  await client.submit({ queue: "q", key: "a" });
});
