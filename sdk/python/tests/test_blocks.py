"""A block beside a worker ends when its worker does."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest
from support import Log, Scene, within

from keywork import (
    CancelReason,
    Context,
    Job,
    StatusCode,
    WorkerBrokenError,
    WorkerForcedError,
    WorkerRefusedError,
    WorkerSupersededError,
    sync,
)
from keywork._worker.driver import Driver
from keywork.testing import FakeServer, Status

REFUSED = Status(StatusCode.PERMISSION_DENIED, "no")


async def until_cancelled(log: Log[str]) -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        log.add("cancelled")
        raise


async def refused_block(scene: Scene, log: Log[str]) -> None:
    with scene.server.script() as script:
        script.refuse_sessions.append(REFUSED)
    async with scene.worker():
        await until_cancelled(log)


async def test_a_worker_that_is_refused_ends_its_block(scene: Scene) -> None:
    log: Log[str] = Log()
    with pytest.raises(WorkerRefusedError) as caught:
        await within("the block's end", refused_block(scene, log))
    assert caught.value.error.code is StatusCode.PERMISSION_DENIED
    assert log.all() == ["cancelled"]


async def test_the_task_goes_on_after_such_a_block(scene: Scene) -> None:
    with pytest.raises(WorkerRefusedError):
        await refused_block(scene, Log())
    await asyncio.sleep(0)
    task = asyncio.current_task()
    if sys.version_info >= (3, 11):
        assert task is not None
        assert task.cancelling() == 0
    await scene.submit("a")


async def test_a_worker_that_is_superseded_ends_its_block(scene: Scene) -> None:
    async def block() -> None:
        async with scene.worker(worker_id="same"):
            await scene.server.until("a session", lambda seen: seen.sessions == 1)
            newer = scene.worker(worker_id="same")
            async with newer:
                await asyncio.Event().wait()

    with pytest.raises(WorkerSupersededError):
        await within("the block's end", block())


async def test_a_worker_that_breaks_ends_its_block_and_says_why(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(driver: Driver) -> None:
        raise KeyError("broken")

    monkeypatch.setattr(Driver, "_work", breaks)
    with pytest.raises(WorkerBrokenError) as caught:
        async with scene.worker():
            await asyncio.Event().wait()
    assert isinstance(caught.value.__cause__, KeyError)


async def test_a_block_that_swallows_its_cancellation_raises_the_error_at_its_end(scene: Scene) -> None:
    log: Log[str] = Log()
    with scene.server.script() as script:
        script.refuse_sessions.append(REFUSED)
    with pytest.raises(WorkerRefusedError):
        async with scene.worker():
            try:
                await until_cancelled(log)
            except asyncio.CancelledError:
                await asyncio.sleep(0)
            log.add("went on")
    assert log.all() == ["cancelled", "went on"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 cannot tell who cancelled")
async def test_a_block_that_somebody_else_cancels_too_is_cancelled(scene: Scene) -> None:
    task: asyncio.Task[None]

    async def block() -> None:
        with scene.server.script() as script:
            script.refuse_sessions.append(REFUSED)
        async with scene.worker():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                task.cancel()
                raise

    task = asyncio.ensure_future(block())
    with pytest.raises(asyncio.CancelledError):
        await within("the block's end", task)
    assert task.cancelled()


async def test_a_block_that_is_cancelled_drains(scene: Scene) -> None:
    await scene.submit("a")

    async def block() -> None:
        async with scene.worker():
            await asyncio.Event().wait()

    task = asyncio.ensure_future(block())
    await scene.until_started(1)
    task.cancel()
    await scene.server.until("the drain", lambda seen: seen.drains == 1)
    scene.open_gate()
    with pytest.raises(asyncio.CancelledError):
        await within("the block's end", task)
    assert scene.server.seen().settled("complete") == ["a"]


async def test_an_error_of_the_block_is_raised(scene: Scene) -> None:
    with pytest.raises(KeyError):
        async with scene.worker():
            raise KeyError("the block's own")


async def test_a_block_that_stops_the_worker_itself_goes_on(scene: Scene) -> None:
    async with scene.worker() as worker:
        worker.drain()
        await scene.server.until("no session", lambda seen: seen.sessions == 0)
        await scene.submit("a")


async def test_a_worker_that_ran_before_cannot_have_a_block(scene: Scene) -> None:
    worker = scene.worker()
    async with worker:
        pass
    with pytest.raises(RuntimeError, match="started before"):
        async with worker:
            pass


async def test_a_worker_that_is_told_to_release_everything_ends_its_block(scene: Scene) -> None:
    await scene.submit("a")
    with pytest.raises(WorkerForcedError):
        async with scene.worker() as worker:
            await scene.until_started(1)
            worker.release_all()
            await asyncio.Event().wait()
    await scene.until_cancelled("a", CancelReason.WORKER_SHUTDOWN)


def nothing(context: Context, job: Job) -> None:
    """Completes."""


def test_a_block_without_a_loop_learns_of_it_when_it_waits(
    server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    log: Log[str] = Log()
    with server.script() as script:
        script.refuse_sessions.append(REFUSED)
    with (
        server.sync_client() as client,
        pytest.raises(WorkerRefusedError),
        sync.Worker(client, "q", nothing) as worker,
    ):
        worker.wait(20)
        log.add("went on")
    assert not log.all()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        "the worker beside a block has ended: failed to open the session: no"
    ]


def test_a_wait_ends_with_the_worker_or_with_its_time(server: FakeServer) -> None:
    with server.sync_client() as client, sync.Worker(client, "q", nothing) as worker:
        assert not worker.wait(0)
        threading.Timer(0.01, worker.drain).start()
        assert worker.wait(20)
