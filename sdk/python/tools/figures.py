"""Measures what the README states, against a server of its own: $KEYWORK_BIN, with nats-server on the PATH.

.tools/python/bin/python sdk/python/tools/figures.py
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support import Log
from test_real_server import RealServer

from keywork import Client, Context, Job, QueueConfig, Submit, Submitted, Worker, events, sync

PAYLOAD = b"x" * 256


def say(what: str, value: str) -> None:
    sys.stdout.write(f"{what:60} {value}\n")
    sys.stdout.flush()


def memory() -> float:
    """Resident memory in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


async def submit(client: Client, queue: str, jobs: int) -> float:
    begun = time.monotonic()
    results = await client.submit_many(Submit(queue, f"key-{number}", PAYLOAD) for number in range(jobs))
    took = time.monotonic() - begun
    assert all(isinstance(result, Submitted) and result.accepted for result in results)
    return jobs / took


async def throughput(client: Client, handler: Any, what: str, jobs: int, concurrency: int) -> None:
    queue = f"throughput-{time.monotonic_ns()}"
    rate = await submit(client, queue, jobs)
    begun = time.monotonic()
    async with Worker(client, [queue], handler, concurrency=concurrency) as worker:
        while worker.counts().settled < jobs:  # noqa: ASYNC110 - counting is what is measured least with.
            await asyncio.sleep(0.01)
        took = time.monotonic() - begun
    say(f"submits/s, submit_many, {jobs:,} jobs", f"{rate:,.0f}")
    say(f"jobs/s, {what}, concurrency {concurrency}", f"{jobs / took:,.0f}")


def sync_throughput(endpoint: str, jobs: int, concurrency: int) -> None:
    with sync.Client(endpoint) as client:
        queue = f"throughput-{time.monotonic_ns()}"
        client.submit_many(Submit(queue, f"key-{number}", PAYLOAD) for number in range(jobs))
        begun = time.monotonic()
        with sync.Worker(client, queue, plain, concurrency=concurrency) as worker:
            while worker.counts().settled < jobs:
                time.sleep(0.01)
            took = time.monotonic() - begun
    say(f"jobs/s, keywork.sync, concurrency {concurrency}", f"{jobs / took:,.0f}")


async def nothing(context: Context, job: Job) -> None:
    """Completes."""


def plain(context: Context, job: Job) -> None:
    """Completes."""


async def cancellation(client: Client) -> None:
    seen: Log[float] = Log()

    async def waits(context: Context, job: Job) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.add(time.monotonic())
            raise

    await submit(client, "cancelled", 100)
    async with Worker(client, ["cancelled"], waits, concurrency=100) as worker:
        while worker.counts().started < 100:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        begun = time.monotonic()
        await client.purge_queue("cancelled")
        times = await seen.until("all", lambda log: len(log) == 100)
    say("from the purge of 100 running jobs to the last cancellation", f"{(times[-1] - begun) * 1e3:,.0f} ms")


async def reconnect(server: RealServer) -> None:
    told: Log[tuple[float, events.Event]] = Log()
    async with Client(server.endpoint) as client:
        await client.create_queue("killed")
        async with Worker(client, ["killed"], nothing, on_event=lambda event: told.add((time.monotonic(), event))):
            await told.until("ready", lambda log: any(isinstance(event, events.Ready) for _, event in log))
            killed = time.monotonic()
            await asyncio.to_thread(server.kill)
            await told.until("noticed", lambda log: any(isinstance(event, events.Degraded) for _, event in log))
            noticed = next(at for at, event in told.all() if isinstance(event, events.Degraded))
            begun = time.monotonic()
            await asyncio.to_thread(server.start)
            await told.until("again", lambda log: sum(isinstance(event, events.Ready) for _, event in log) == 2)
            again = [at for at, event in told.all() if isinstance(event, events.Ready)][1]
    say("from the server's SIGKILL to the worker's notice", f"{(noticed - killed) * 1e3:,.0f} ms")
    say("from the start of the next server to the new session", f"{(again - begun) * 1e3:,.0f} ms")


async def drain(client: Client) -> None:
    async def short(context: Context, job: Job) -> None:
        await asyncio.sleep(0.1)

    await submit(client, "drained", 1_000)
    async with Worker(client, ["drained"], short, concurrency=100) as worker:
        while worker.counts().started < 100:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        begun = time.monotonic()
    say("drain with 100 jobs of 100 ms running", f"{(time.monotonic() - begun) * 1e3:,.0f} ms")


async def held(client: Client) -> None:
    go_on = asyncio.Event()

    async def waits(context: Context, job: Job) -> None:
        await go_on.wait()

    await client.create_queue("held", QueueConfig(lease_duration=3))
    before = memory()
    await submit(client, "held", 1_000)
    async with Worker(client, ["held"], waits, concurrency=1_000) as worker:
        while worker.counts().started < 1_000:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        begun = time.process_time()
        await asyncio.sleep(6)
        used = (time.process_time() - begun) / 6
        say("memory of the process at 1,000 held leases", f"{memory():,.0f} MiB ({memory() - before:+,.0f})")
        say("CPU at 1,000 held leases of 3 s, of one core", f"{used:.1%}")
        assert worker.counts().leases_lost == 0
        go_on.set()


async def main() -> None:
    say("memory of the process at its start", f"{memory():,.0f} MiB")
    with tempfile.TemporaryDirectory() as directory:
        server = RealServer(Path(directory) / "data")
        server.start()
        try:
            async with Client(server.endpoint) as client:
                await held(client)
                for concurrency in (100, 1_000):
                    await throughput(client, nothing, "async def", 20_000, concurrency)
                await throughput(client, plain, "plain function on threads", 10_000, 100)
                await asyncio.to_thread(sync_throughput, server.endpoint, 10_000, 100)
                await cancellation(client)
                await drain(client)
            await reconnect(server)
        finally:
            server.stop()


asyncio.run(main())
