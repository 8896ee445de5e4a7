"""A worker extends what it holds, and stops a handler before its lease can be somebody else's."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support import Cancelled, Log, Scene, _scene

from keywork import CancelReason, Context, Job, LostReason, Release, StatusCode, events
from keywork._worker import driver
from keywork._worker.leases import DEFAULT_TERMS, Held
from keywork._worker.runners import LoopRunner
from keywork.testing import Status


async def test_a_job_that_takes_many_lease_durations_runs_once(short: Scene) -> None:
    await short.submit("long")
    async with short.worker():
        await short.server.until("many heartbeats", lambda seen: seen.heartbeats >= 10)
        short.open_gate()
        seen = await short.server.until("completion", lambda seen: seen.settled("complete") == ["long"])
        assert (len(seen.delivered), seen.expired) == (1, 0)


def burn(seconds: float) -> None:
    """Never lets anything else run on this thread, and never gives up the interpreter by itself."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


@pytest.fixture
async def burning() -> AsyncIterator[Scene]:
    """The server is in the burning process too, and suffers more than a real one: leases of 3 s."""
    async for scene in _scene(lease_duration=3):
        yield scene


async def test_an_async_handler_that_burns_cpu_costs_no_lease(burning: Scene) -> None:
    async def hot(context: Context, job: Job) -> None:
        burn(6.5)  # Two lease durations and more, on the loop itself.
        burning.steps.add(context.cancelled)

    await burning.submit("hot")
    async with burning.worker(hot):
        seen = await burning.server.until("completion", lambda seen: seen.settled("complete") == ["hot"])
    assert (len(seen.delivered), seen.expired) == (1, 0)
    assert burning.steps.all() == [False]


async def test_plain_handlers_that_burn_cpu_cost_no_lease(burning: Scene) -> None:
    def hot(context: Context, job: Job) -> None:
        burn(6.5)
        burning.steps.add(context.cancelled)

    await burning.submit("hot", "hotter")
    async with burning.worker(hot):
        seen = await burning.server.until("completion", lambda seen: len(seen.settled("complete")) == 2)
    assert (len(seen.delivered), seen.expired) == (2, 0)
    assert burning.steps.all() == [False, False]


async def test_a_worker_whose_heartbeats_are_not_answered_stops_its_handlers_before_the_deadline(
    short: Scene,
) -> None:
    await short.submit("a")
    with short.server.script() as script:
        script.ignore_heartbeats = True
    async with short.worker() as worker:
        await short.until_cancelled("a", CancelReason.LEASE_LOST)
        assert short.server.seen().expired == 0, "the lease had not run out yet"
        with short.server.script() as script:
            script.ignore_heartbeats = False
        await short.server.until("another delivery", lambda seen: len(seen.delivered) == 2)
        short.open_gate()
        seen = await short.server.until("completion", lambda seen: bool(seen.settled("complete")))
        assert len(seen.settlements) == 1, "the first handler's result was dropped"
        assert worker.counts().dropped_results == 1


async def test_a_lease_that_the_server_takes_away_cancels_its_handler_at_once(scene: Scene) -> None:
    await scene.submit("a", "b")
    async with scene.worker():
        await scene.until_started(2)
        before = time.monotonic()
        scene.server.lose_lease("q", "a")
        await scene.until_cancelled("a", CancelReason.LEASE_LOST)
        assert time.monotonic() - before < 1
        await scene.events.until(
            "the event", lambda told: any(isinstance(e, events.LeaseLost) and e.key == "a" for e in told)
        )
        scene.open_gate()


async def test_a_burning_handler_learns_at_once_that_its_lease_is_lost(scene: Scene) -> None:
    started = threading.Event()

    async def hot(context: Context, job: Job) -> None:
        started.set()
        while not context.cancelled:
            pass
        scene.steps.add(Cancelled(job.key, context.reason))

    await scene.submit("a")

    def take_it_away() -> None:
        started.wait(20)
        # Cancelled: it comes to nobody again, and so burns this loop only once.
        scene.server.lose_lease("q", "a", LostReason.CANCELLED)

    async with scene.worker(hot, concurrency=1):
        away = threading.Thread(target=take_it_away)
        away.start()
        await scene.until_cancelled("a", CancelReason.JOB_CANCELLED)
        away.join()


async def test_a_job_that_is_cancelled_tells_its_handler_so(scene: Scene) -> None:
    await scene.submit("a")
    async with scene.worker():
        await scene.until_started(1)
        assert await scene.client.purge_queue("q") == 1
        await scene.until_cancelled("a", CancelReason.JOB_CANCELLED)


async def test_a_loss_that_only_a_heartbeat_tells_cancels_too(short: Scene) -> None:
    await short.submit("a")
    async with short.worker(concurrency=1):
        await short.until_started(1)
        assert (await short.client.pause_queue("q")).paused
        short.server.lose_lease("q", "a", tell=False)
        await short.until_cancelled("a", CancelReason.LEASE_LOST)


async def test_where_there_is_a_disconnect_grace_handlers_stop_that_long_after_the_stream_broke() -> None:
    async for scene in _scene(lease_duration=60, disconnect_grace=0.5):
        await scene.submit("a")
        async with scene.worker():
            await scene.until_started(1)
            with scene.server.script() as script:
                script.refuse_sessions.extend([Status(StatusCode.UNAVAILABLE, "away")] * 20)
            scene.server.end_sessions()
            await scene.until_cancelled("a", CancelReason.LEASE_LOST)
            with scene.server.script() as script:
                script.refuse_sessions.clear()
            scene.open_gate()
            await scene.server.until("the job to run again", lambda seen: seen.settled("complete") == ["a"])


async def test_a_handler_that_lost_its_lease_keeps_its_slot_until_it_ends(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "STUBBORN", 0.5)
    release = asyncio.Event()

    async def stubborn(context: Context, job: Job) -> None:
        scene.steps.add(job.key)
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                scene.steps.add("deaf")

    await scene.submit("stubborn")
    async with scene.worker(stubborn, concurrency=2):
        await scene.steps.until("the handler", lambda keys: len(keys) == 1)
        await scene.client.purge_queue("q")
        await scene.server.until("a lower capacity", lambda seen: seen.capacity == 1)
        await scene.until_event(events.HandlerIgnoresCancellation)
        release.set()
        await scene.server.until("the full capacity", lambda seen: seen.capacity == 2)


async def test_no_more_handlers_run_at_once_than_the_concurrency_says(scene: Scene) -> None:
    await scene.submit("a", "b", "c", "d", "e")
    async with scene.worker(concurrency=2):
        await scene.until_started(2)
        assert len(scene.server.seen().delivered) == 2, "what has no slot stays in the queue"
        scene.open_gate()
        await scene.server.until("all to complete", lambda seen: len(seen.settled("complete")) == 5)


async def test_the_deadline_of_a_context_moves_with_the_heartbeats(short: Scene) -> None:
    deadlines: Log[Any] = Log()

    async def watch(context: Context, job: Job) -> None:
        first = context.deadline
        assert 0 < context.time_left() <= 1.5
        while context.deadline == first:  # noqa: ASYNC110 - it is the heartbeats that move it.
            await asyncio.sleep(0)
        deadlines.add((first, context.deadline))

    await short.submit("a")
    async with short.worker(watch):
        [(first, second)] = await deadlines.until("a deadline that moves", lambda log: len(log) == 1)
    assert first < second


async def test_a_heartbeat_that_could_not_be_confirmed_extends_nothing(short: Scene) -> None:
    await short.submit("a")
    with short.server.script() as script:
        script.unconfirmed_heartbeats = True
    async with short.worker():
        await short.until_cancelled("a", CancelReason.LEASE_LOST)
        seen = short.server.seen()
        assert (seen.expired, len(seen.hellos)) == (0, 1), "in time, and the session went on"
        with short.server.script() as script:
            script.unconfirmed_heartbeats = False
        short.open_gate()


async def test_a_plain_handler_waits_for_its_cancellation(scene: Scene) -> None:
    def wait(context: Context, job: Job) -> None:
        scene.steps.add("started")
        if context.wait(20):
            scene.steps.add(context.reason)
        context.raise_if_cancelled()

    await scene.submit("a")
    async with scene.worker(wait) as worker:
        await scene.steps.until("the handler", lambda steps: steps == ["started"])
        scene.server.lose_lease("q", "a", tell=True)
        await scene.steps.until("its cancellation", lambda steps: CancelReason.LEASE_LOST in steps)
        await scene.client.purge_queue("q")
        await scene.server.until("nothing to settle", lambda seen: not seen.settlements)
    assert worker.counts().leases_lost >= 1


async def test_a_handler_that_is_cancelled_before_its_first_step_frees_its_slot(scene: Scene) -> None:
    worker = scene.worker()
    runner = LoopRunner(worker._shared, asyncio.get_running_loop(), scene.at_the_gate, [], None)
    held = Held(b"token", Job(key="a"), DEFAULT_TERMS, time.monotonic() + 60)
    runner.start([held])
    held.context._cancel(CancelReason.LEASE_LOST)
    runner.cancel([held])
    finished = await asyncio.to_thread(worker._shared.inbox.get, timeout=20)
    assert (finished.held, finished.outcome) == (held, Release())
    assert not scene.steps.all(), "it never began"
