"""Against a server as it is run: $KEYWORK_BIN, or the debug build; with nats-server on the PATH."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import Log

from keywork import (
    CancelReason,
    Client,
    Context,
    Fail,
    Job,
    NotFoundError,
    QueueConfig,
    Retry,
    Schedule,
    Submit,
    SubmitOutcome,
    Submitted,
    UnimplementedError,
    Worker,
    events,
    reasons,
    sync,
)

CHECKOUT = Path(__file__).parents[3]
BINARY = os.environ.get("KEYWORK_BIN") or str(CHECKOUT / "target" / "debug" / "keywork")

pytestmark = [
    pytest.mark.skipif(shutil.which(BINARY) is None, reason=f"there is no server at {BINARY}"),
    pytest.mark.skipif(shutil.which("nats-server") is None, reason="nats-server is not on the PATH"),
]


class RealServer:
    """A server with a nats-server of its own, on a port that stays the same."""

    def __init__(self, data: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._data = data
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [BINARY, "serve", "--listen", f"127.0.0.1:{self.port}", "--data-dir", str(self._data)]
        log = (self._data.parent / "server.log").open("ab")
        with log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + 30
        with sync.Client(self.endpoint, call_timeout=1) as client:
            while True:
                with contextlib.suppress(Exception):
                    client.list_queues()
                    return
                assert time.monotonic() < until, (self._data.parent / "server.log").read_text()

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    server = RealServer(tmp_path_factory.mktemp("keywork") / "data")
    server.start()
    yield server
    server.stop()


async def test_jobs_go_from_their_submits_to_their_ends(real: RealServer) -> None:
    seen: Log[str] = Log()

    async def handler(context: Context, job: Job) -> None:
        if job.key == "key-7" and job.attempt == 1:
            raise Retry(0)
        seen.add(job.key)

    async with Client(real.endpoint) as client:
        results = await client.submit_many(Submit("ends", f"key-{n}", b"x") for n in range(500))
        assert all(isinstance(r, Submitted) and r.outcome is SubmitOutcome.CREATED for r in results)
        assert (await client.submit("ends", "key-1")).outcome is SubmitOutcome.ALREADY_OUTSTANDING
        async with Worker(client, ["ends"], handler, concurrency=50) as worker:
            await seen.until("all", lambda keys: len(keys) == 500)
        assert sorted(seen.all()) == sorted(f"key-{n}" for n in range(500))
        assert worker.counts().settled == 501
        assert (await client.submit("ends", "key-1")).accepted, "settled means free"


async def test_a_burning_handler_keeps_its_lease(real: RealServer) -> None:
    lost: Log[events.Event] = Log()

    async def hot(context: Context, job: Job) -> None:
        until = time.perf_counter() + 5
        while time.perf_counter() < until:
            pass
        assert not context.cancelled

    async with Client(real.endpoint) as client:
        await client.create_queue("hot", QueueConfig(lease_duration=2))
        await client.submit("hot", "a")
        async with Worker(client, ["hot"], hot, on_event=lost.add):
            told = await lost.until("the end", lambda log: any(isinstance(e, events.Settled) for e in log))
    assert not any(isinstance(event, events.LeaseLost) for event in told)
    [settled] = [event for event in told if isinstance(event, events.Settled)]
    assert settled.outcome.name == "SETTLED"


async def test_a_purge_cancels_its_jobs_within_a_second(real: RealServer) -> None:
    seen: Log[CancelReason | None] = Log()
    started = asyncio.Event()

    async def handler(context: Context, job: Job) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.add(context.reason)
            raise

    async with Client(real.endpoint) as client:
        await client.submit("purged", "a")
        async with Worker(client, ["purged"], handler):
            await started.wait()
            before = time.monotonic()
            assert await client.purge_queue("purged") == 1
            await seen.until("the cancellation", lambda log: log == [CancelReason.JOB_CANCELLED])
            assert time.monotonic() - before < 1


async def test_a_killed_server_is_found_again_and_nothing_runs_twice(tmp_path: Path) -> None:
    server = RealServer(tmp_path / "data")
    server.start()
    seen: Log[str] = Log()
    told: Log[events.Event] = Log()
    go_on = asyncio.Event()

    async def handler(context: Context, job: Job) -> None:
        seen.add(job.key)
        await go_on.wait()

    try:
        async with Client(server.endpoint) as client:
            await client.create_queue("killed", QueueConfig(lease_duration=30))
            await client.submit("killed", "a")
            async with Worker(client, ["killed"], handler, on_event=told.add):
                await seen.until("the handler", lambda keys: keys == ["a"])
                server.kill()
                await told.until("the loss", lambda log: any(isinstance(e, events.Degraded) for e in log))
                await asyncio.to_thread(server.start)
                ready = "another session"
                await told.until(ready, lambda log: sum(isinstance(e, events.Ready) for e in log) == 2)
                go_on.set()
                await told.until("the end", lambda log: any(isinstance(e, events.Settled) for e in log))
            assert seen.all() == ["a"]
            assert await client.get_job("killed", "a") is None
    finally:
        server.stop()


async def test_what_the_server_does_not_serve_yet_says_so(real: RealServer) -> None:
    async with Client(real.endpoint) as client:
        await client.create_queue("later")
        with pytest.raises(UnimplementedError) as caught:
            await client.put_schedule(Schedule("nightly", "@every 30s", Submit("later", "a")))
        assert caught.value.reason == reasons.NOT_SERVED_YET
        with pytest.raises(NotFoundError) as missing:
            await client.get_queue("nothing")
        assert missing.value.reason == reasons.QUEUE_NOT_FOUND


async def test_queues_are_made_and_changed(real: RealServer) -> None:
    async with Client(real.endpoint) as client:
        made = await client.create_queue("config", QueueConfig(lease_duration=5, max_attempts=3))
        assert (made.config.lease_duration, made.config.max_attempts) == (5, 3)
        updated = await client.update_queue("config", QueueConfig(max_attempts=4))
        assert (updated.config.lease_duration, updated.config.max_attempts) == (5, 4)
        assert "config" in [queue.name for queue in await client.list_queues(page_size=1_000)]
        await client.delete_queue("config", force=True)


async def test_lists_are_read_to_their_end(real: RealServer) -> None:
    async def fails(context: Context, job: Job) -> None:
        raise Fail("no use")

    async with Client(real.endpoint) as client:
        keys = ["a", "b", "c"]
        await client.submit_batch(Submit("pages", key) for key in keys)
        async with Worker(client, ["pages"], fails) as worker:
            while worker.counts().settled < len(keys):  # noqa: ASYNC110 - it is the server that moves it.
                await asyncio.sleep(0.01)
        assert len(await client.list_dead_jobs("pages", page_size=1)) == 1
        assert sorted([dead.job.key async for dead in client.dead_jobs("pages", page_size=1)]) == keys
        assert [dead.job.key async for dead in client.dead_jobs("pages", key="b")] == ["b"]
        await client.create_queue("pages-too")
        names = [queue.name async for queue in client.queues(page_size=1)]
        assert {"pages", "pages-too"} <= set(names)
    with sync.Client(real.endpoint) as blocking:
        assert sorted(dead.job.key for dead in blocking.dead_jobs("pages", page_size=1)) == keys
        assert [queue.name for queue in blocking.queues(page_size=1)] == names
        for dead in blocking.dead_jobs("pages", page_size=1):
            blocking.redrive_dead_jobs("pages", [dead.dead_id])
        assert not list(blocking.dead_jobs("pages")), "none was passed over"
