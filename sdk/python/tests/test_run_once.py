"""A handler by itself: what a worker would settle, also when its context is cancelled meanwhile."""

from __future__ import annotations

import asyncio
import threading

import pytest

from keywork import CancelReason, Complete, Context, Fail, Job, Outcome, Release, Retry
from keywork.testing import Dropped, FakeContext, job, run_once, run_once_sync

JOB = job("q", "a")
REASONS = list(CancelReason)


async def run_and_cancel(handler: object, reason: CancelReason) -> Outcome | Dropped:
    """Cancels the context as soon as the handler runs."""
    started, context = asyncio.Event(), FakeContext()

    async def starts(context: Context, job: Job) -> object:
        started.set()
        return await handler(context, job)  # type: ignore[operator]

    running = asyncio.ensure_future(run_once(starts, JOB, context))
    await started.wait()
    context.cancel(reason)
    return await running


@pytest.mark.parametrize("reason", REASONS)
async def test_the_task_of_a_handler_is_cancelled_and_it_sees_the_reason(reason: CancelReason) -> None:
    seen: list[CancelReason | None] = []

    async def waits(context: Context, job: Job) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(context.reason)
            raise

    outcome = await run_and_cancel(waits, reason)
    assert seen == [reason]
    if reason is CancelReason.WORKER_SHUTDOWN:
        assert outcome == Release()
    else:
        assert isinstance(outcome, Dropped)
        assert outcome.reason is reason


@pytest.mark.parametrize("reason", REASONS)
async def test_what_a_handler_returns_after_it_was_cancelled(reason: CancelReason) -> None:
    async def saves(context: Context, job: Job) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Fail("saved what there was") from None

    outcome = await run_and_cancel(saves, reason)
    saved = Fail("saved what there was")
    assert outcome == (saved if reason is CancelReason.WORKER_SHUTDOWN else Dropped(reason, saved))


async def test_an_ordinary_error_after_a_shutdown_is_a_release_and_a_chosen_retry_is_not() -> None:
    async def breaks(context: Context, job: Job) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError("gone") from None

    async def chooses(context: Context, job: Job) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Retry(5) from None

    assert await run_and_cancel(breaks, CancelReason.WORKER_SHUTDOWN) == Release()
    assert await run_and_cancel(chooses, CancelReason.WORKER_SHUTDOWN) == Retry(5)


@pytest.mark.parametrize("reason", REASONS)
async def test_a_plain_function_is_cancelled_by_its_context(reason: CancelReason) -> None:
    started, context = threading.Event(), FakeContext()

    def waits(context: Context, job: Job) -> str:
        started.set()
        assert context.wait(20)
        return "ignored"

    running = asyncio.ensure_future(run_once(waits, JOB, context))
    await asyncio.to_thread(started.wait, 20)
    context.cancel(reason)
    outcome = await running
    assert outcome == (Complete() if reason is CancelReason.WORKER_SHUTDOWN else Dropped(reason, Complete()))


def test_a_context_may_be_cancelled_before_and_by_the_handler_itself() -> None:
    def stops(context: Context, job: Job) -> None:
        context.raise_if_cancelled()

    def loses(context: Context, job: Job) -> None:
        assert isinstance(context, FakeContext)
        context.cancel(CancelReason.LEASE_LOST)

    context = FakeContext()
    context.cancel(CancelReason.WORKER_SHUTDOWN)
    assert run_once_sync(stops, JOB, context) == Release()
    assert run_once_sync(loses, JOB, FakeContext()) == Dropped(CancelReason.LEASE_LOST, Complete())


async def test_the_first_reason_counts() -> None:
    context = FakeContext()
    context.cancel(CancelReason.LEASE_LOST)
    context.cancel(CancelReason.WORKER_SHUTDOWN)

    async def handler(context: Context, job: Job) -> None: ...

    outcome = await run_once(handler, JOB, context)
    assert isinstance(outcome, Dropped)
    assert outcome.reason is CancelReason.LEASE_LOST


async def test_a_test_that_is_cancelled_cancels_the_handler() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def waits(context: Context, job: Job) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.ensure_future(run_once(waits, JOB))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.wait_for(ended.wait(), 20)


async def test_the_time_left_is_the_tests_to_choose() -> None:
    async def looks(context: Context, job: Job) -> None:
        if context.time_left() < 10:
            raise Retry(60, "too little time")

    assert await run_once(looks, JOB, FakeContext(time_left=5)) == Retry(60, "too little time")
    assert await run_once(looks, JOB) == Complete()
