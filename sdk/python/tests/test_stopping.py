"""A worker that is told to stop finishes, releases, and leaves nothing to run out."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from typing import Any

import pytest
from support import Cancelled, Log, Scene, Started, within

from keywork import (
    CancelReason,
    Context,
    Job,
    Release,
    StatusCode,
    WorkerForcedError,
    WorkerRefusedError,
    events,
    sync,
)
from keywork._worker import driver
from keywork._worker.leases import DEFAULT_TERMS, Held
from keywork._worker.runners import LoopRunner
from keywork.testing import Status


async def test_a_drain_finishes_what_runs_and_starts_nothing_new(short: Scene) -> None:
    await short.submit("a", "b", "c")
    worker = short.worker(concurrency=2)
    running = asyncio.ensure_future(worker.run_until())
    await short.until_started(2)
    worker.drain()
    before = (await short.server.until("the drain", lambda seen: seen.drains == 1)).heartbeats
    # Several lease durations: heartbeats go on until the last settlement.
    await short.server.until("heartbeats", lambda seen: seen.heartbeats >= before + 6)
    short.open_gate()
    await within("the end", running)
    seen = short.server.seen()
    assert len(seen.settled("complete")) == 2
    assert (len(seen.delivered), seen.expired) == (2, 0)
    left = short.server.outstanding("q", "c")
    assert left is not None
    assert left.attempt == 1


async def test_an_idle_worker_drains_at_once(scene: Scene) -> None:
    async with scene.worker():
        await scene.server.until("a session", lambda seen: seen.sessions == 1)
    await scene.server.until("the session's end", lambda seen: seen.sessions == 0)


async def test_a_worker_that_never_reached_a_server_drains_at_once(scene: Scene) -> None:
    with scene.server.script() as script:
        script.unwelcome_sessions = 10
    async with scene.worker():
        await scene.server.until("a try", lambda seen: bool(seen.hellos))


async def test_after_the_grace_handlers_are_cancelled_and_their_jobs_released(scene: Scene) -> None:
    await scene.submit("a")
    async with scene.worker(shutdown_grace=0.1):
        await scene.until_started(1)
    await scene.until_cancelled("a", CancelReason.WORKER_SHUTDOWN)
    assert scene.server.seen().settled("release") == ["a"]
    left = scene.server.outstanding("q", "a")
    assert left is not None
    assert left.attempt == 1, "no attempt is lost"


async def test_what_a_handler_returns_after_a_shutdowns_cancellation_counts(scene: Scene) -> None:
    async def saves_its_work(context: Context, job: Job) -> None:
        scene.steps.add(Started(job.key))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            assert context.reason is CancelReason.WORKER_SHUTDOWN

    await scene.submit("a")
    async with scene.worker(saves_its_work, shutdown_grace=0.05):
        await scene.until_started(1)
    assert scene.server.seen().settled("complete") == ["a"]


async def test_a_plain_handler_that_does_not_end_is_left_behind_and_its_lease_not_released(scene: Scene) -> None:
    go_on = threading.Event()

    def deaf(context: Context, job: Job) -> None:
        scene.steps.add(Started(job.key))
        go_on.wait(20)

    await scene.submit("a")
    async with scene.worker(deaf, shutdown_grace=0.05, cancel_grace=0.05):
        await scene.until_started(1)
    assert scene.events.all()[-1] == events.Stopped(abandoned=1)
    assert not scene.server.seen().settlements, "it runs still, so that nobody else may"
    go_on.set()


async def test_results_that_no_server_confirmed_are_counted(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "FLUSH_WITHIN", 0.1)
    with scene.server.script() as script:
        script.unanswered_settlements = 2
    await scene.submit("a", "b", "c")
    scene.open_gate()
    async with scene.worker(shutdown_grace=0, cancel_grace=0) as worker:
        await scene.server.until("the results", lambda seen: len(seen.settled("complete")) == 3)
        await scene.until_event(events.Settled)
    assert scene.events.all()[-1] == events.Stopped(abandoned=0, unconfirmed=2)
    assert worker.counts().settled == 1


async def test_results_that_a_worker_has_when_it_is_refused_are_counted(scene: Scene) -> None:
    with scene.server.script() as script:
        script.unanswered_settlements = 1
    await scene.submit("a")
    scene.open_gate()
    run = asyncio.ensure_future(scene.worker().run_until())
    await scene.server.until("the result", lambda seen: seen.settled("complete") == ["a"])
    with scene.server.script() as script:
        script.refuse_sessions.append(Status(StatusCode.PERMISSION_DENIED, "no"))
    scene.server.end_sessions()
    with pytest.raises(WorkerRefusedError):
        await within("the end", run)
    assert scene.events.all()[-1] == events.Stopped(abandoned=0, unconfirmed=1)


async def test_a_handler_that_swallows_its_cancellation_is_cancelled_again(scene: Scene) -> None:
    async def deaf(context: Context, job: Job) -> None:
        scene.steps.add(Started(job.key))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()

    await scene.submit("a")
    async with scene.worker(deaf, shutdown_grace=0.05, cancel_grace=0.05):
        await scene.until_started(1)
    assert scene.server.seen().settled("release") == ["a"]


async def test_two_cancellations_that_come_at_once_are_both_felt(scene: Scene) -> None:
    async def deaf_once(context: Context, job: Job) -> None:
        scene.steps.add(Started(job.key))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()

    worker = scene.worker()
    runner = LoopRunner(worker._shared, asyncio.get_running_loop(), deaf_once, [], None)
    held = Held(b"token", Job(key="a"), DEFAULT_TERMS, time.monotonic() + 60)
    runner.start([held])
    await scene.until_started(1)
    held.context._cancel(CancelReason.WORKER_SHUTDOWN)
    runner.cancel([held])
    runner.cancel([held])
    finished = await asyncio.to_thread(worker._shared.inbox.get, timeout=20)
    assert finished.held is held


async def test_a_handler_that_somebody_else_cancels_costs_no_attempt(scene: Scene) -> None:
    tasks: Log[asyncio.Task[Any] | None] = Log()

    async def waits(context: Context, job: Job) -> None:
        tasks.add(asyncio.current_task())
        await asyncio.Event().wait()

    worker = scene.worker(waits)
    runner = LoopRunner(worker._shared, asyncio.get_running_loop(), waits, [], None)
    held = Held(b"token", Job(key="a"), DEFAULT_TERMS, time.monotonic() + 60)
    runner.start([held])
    [task] = await tasks.until("the handler", lambda tasks: len(tasks) == 1)
    assert task is not None
    task.cancel()
    finished = await asyncio.to_thread(worker._shared.inbox.get, timeout=20)
    assert isinstance(finished.outcome, Release)


async def test_a_second_order_releases_everything_and_is_an_error(scene: Scene) -> None:
    await scene.submit("a", "b")
    worker = scene.worker()
    running = asyncio.ensure_future(worker.run_until())
    await scene.until_started(2)
    worker.drain()
    await scene.until_event(events.Draining)
    worker.release_all()
    with pytest.raises(WorkerForcedError):
        await within("the end", running)
    assert sorted(scene.server.seen().settled("release")) == ["a", "b"]


async def test_a_run_that_is_cancelled_releases_its_jobs(scene: Scene) -> None:
    await scene.submit("a")
    running = asyncio.ensure_future(scene.worker().run_until())
    await scene.until_started(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await scene.server.until("the release", lambda seen: seen.settled("release") == ["a"])


def test_a_loop_that_ends_releases_its_jobs() -> None:
    from keywork.testing import FakeServer

    with FakeServer() as server:

        async def main() -> None:
            scene = Scene(server)
            await scene.submit("a")
            left_running.append(asyncio.ensure_future(scene.worker().run_until()))
            await scene.until_started(1)

        left_running: list[asyncio.Future[None]] = []
        asyncio.run(main())
        # It may have been given back to this very worker before that knew of the end.
        server.wait_until("the release", lambda seen: "a" in seen.settled("release") and seen.sessions == 0)
        left = server.outstanding("q", "a")
        assert left is not None
        assert (left.attempt, left.holder) == (1, "")


async def test_an_event_that_is_set_drains(scene: Scene) -> None:
    stop = asyncio.Event()
    stop.set()
    await within("the end", scene.worker().run_until(stop))
    assert any(isinstance(event, events.Draining) for event in scene.events.all())


async def test_what_stops_a_worker_must_be_an_event_of_its_kind(scene: Scene) -> None:
    with pytest.raises(TypeError, match=r"asyncio\.Event"):
        await scene.worker().run_until(threading.Event())  # type: ignore[arg-type]
    with scene.server.sync_client() as client, pytest.raises(TypeError, match=r"threading\.Event"):
        sync.Worker(client, "q", lambda context, job: None).run_until(asyncio.Event())  # type: ignore[arg-type]


async def test_settlements_are_flushed_although_the_stream_breaks_during_the_drain(scene: Scene) -> None:
    await scene.submit("a")
    worker = scene.worker()
    running = asyncio.ensure_future(worker.run_until())
    await scene.until_started(1)
    worker.drain()
    await scene.server.until("the drain", lambda seen: seen.drains == 1)
    scene.server.end_sessions()
    scene.open_gate()
    await within("the end", running)
    assert scene.server.seen().settled("complete") == ["a"]


async def test_the_first_signal_drains_and_the_second_releases_everything(scene: Scene) -> None:
    before = (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))
    await scene.submit("a")
    running = asyncio.ensure_future(scene.worker().run())
    await scene.until_started(1)
    os.kill(os.getpid(), signal.SIGTERM)
    await scene.server.until("the drain", lambda seen: seen.drains == 1)
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(WorkerForcedError):
        await within("the end", running)
    assert scene.server.seen().settled("release") == ["a"]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


async def test_a_signal_is_heard_while_nothing_else_happens(scene: Scene) -> None:
    def elsewhere() -> None:
        scene.server.wait_until("a session", lambda seen: seen.sessions == 1)
        # Given to this thread, it does not interrupt the wait of the main one.
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    before = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before)
    threading.Thread(target=elsewhere).start()
    await within("the end", scene.worker().run())
    assert signal.set_wakeup_fd(before) == before, "as it was"


async def test_the_first_signal_after_a_drain_by_hand_is_the_first(scene: Scene) -> None:
    await scene.submit("a")
    worker = scene.worker()
    running = asyncio.ensure_future(worker.run())
    await scene.until_started(1)
    worker.drain()
    await scene.server.until("the drain", lambda seen: seen.drains == 1)
    os.kill(os.getpid(), signal.SIGTERM)
    scene.open_gate()
    await within("the end", running)
    assert scene.server.seen().settled("complete") == ["a"]


async def test_a_signal_is_heard_while_a_handler_blocks_the_loop(scene: Scene) -> None:
    async def hot(context: Context, job: Job) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        scene.server.wait_until("the drain", lambda seen: seen.drains == 1)

    await scene.submit("a")
    await within("the end", scene.worker(hot).run())
    assert scene.server.seen().settled("complete") == ["a"]


async def test_run_needs_the_main_thread(scene: Scene) -> None:
    def elsewhere() -> Any:
        return asyncio.run(scene.worker().run())

    with pytest.raises(RuntimeError, match="run_until"):
        await asyncio.to_thread(elsewhere)


async def test_a_drain_while_the_session_opens_leaves_no_delivery_behind(scene: Scene) -> None:
    await scene.submit("a", "b", "c", "d")
    scene.open_gate()
    for tries in range(30):
        worker = scene.worker(worker_id=f"worker-{tries}")
        async with worker:
            # Somewhere between the first packet and the first delivery.
            for _ in range(tries * 20):
                await asyncio.sleep(0)
    seen = scene.server.seen()
    ended = len(seen.settled("complete")) + len(seen.settled("release"))
    assert len(seen.delivered) == ended, "every delivery was settled"
    assert not any(isinstance(step, Cancelled) for step in scene.steps.all())
