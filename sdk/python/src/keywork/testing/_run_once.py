"""Running a handler without a server and without a worker."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keywork import handlers, outcomes
from keywork._wire import seconds
from keywork.context import CancelReason, Context

if TYPE_CHECKING:
    from keywork._wire import Seconds
    from keywork.handlers import Handler
    from keywork.job import Job
    from keywork.outcomes import Outcome


class FakeContext(Context):
    """A handler's context that the test cancels, when it likes and as a worker would."""

    __slots__ = ("_on_cancel",)

    def __init__(self, time_left: Seconds = 3_600.0) -> None:
        super().__init__(time.monotonic() + seconds(time_left))
        self._on_cancel: Callable[[], object] | None = None

    def cancel(self, reason: CancelReason) -> None:
        """Tells the handler to stop, and cancels the task of an ``async def``. May be called from any thread."""
        self._cancel(reason)
        if self._on_cancel is not None:
            self._on_cancel()


@dataclass(frozen=True, slots=True)
class Dropped:
    """A worker would have dropped what the handler did, since the lease was no longer its own."""

    #: `LEASE_LOST` or `JOB_CANCELLED`.
    reason: CancelReason
    #: How the handler ended.
    outcome: Outcome


async def run_once(handler: Handler, job: Job, context: FakeContext | None = None) -> Outcome | Dropped:
    """Runs a handler on one job, and tells what a worker would settle. No server is needed.

    Args:
        handler: The handler; a plain function runs on a thread.
        job: The job, as `keywork.testing.job` makes one.
        context: A `FakeContext` that the test cancels meanwhile. Default: one with a lease that lasts.
    """
    context = FakeContext() if context is None else context
    if not handlers.is_async(handler):
        return await asyncio.to_thread(run_once_sync, handler, job, context)
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(_ended(handler, context, job))
    context._on_cancel = lambda: loop.call_soon_threadsafe(task.cancel)
    if context.cancelled:
        task.cancel()
    try:
        await asyncio.wait([task])
    finally:
        # The test itself was cancelled, as by a timeout.
        task.cancel()
    ended = outcomes.of_error(asyncio.CancelledError()) if task.cancelled() else task.result()
    return _settled(ended, context)


def run_once_sync(
    handler: Callable[[Context, Job], object], job: Job, context: FakeContext | None = None
) -> Outcome | Dropped:
    """As `run_once`, for a plain function."""
    context = FakeContext() if context is None else context
    try:
        ended = handlers.ended(handler(context, job))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the job's.
        ended = outcomes.of_error(error)
    return _settled(ended, context)


async def _ended(handler: Any, context: Context, job: Job) -> Outcome:
    try:
        result: Any = handler(context, job)
        assert inspect.isawaitable(result)
        return outcomes.of_result(await result)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the job's.
        return outcomes.of_error(error)


def _settled(ended: Outcome, context: Context) -> Outcome | Dropped:
    settled = outcomes.settled_as(ended, context.reason)
    if settled is not None:
        return settled
    assert context.reason is not None
    return Dropped(context.reason, ended)
