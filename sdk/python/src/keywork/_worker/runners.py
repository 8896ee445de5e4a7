"""Where handlers run: on the caller's event loop, or on threads."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import sys
from typing import TYPE_CHECKING, Any

from keywork import handlers, outcomes
from keywork._worker.around import Around
from keywork._worker.pool import Pool
from keywork._worker.shared import Finished, Shared
from keywork._worker.stop import Order
from keywork.outcomes import Outcome, Release

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from concurrent.futures import Future

    from keywork._worker.leases import Held
    from keywork.context import Context
    from keywork.job import Job
    from keywork.tracing import Tracing

#: The least time, in seconds, that a task has to notice one cancellation before the next.
BETWEEN_CANCELS = 0.05


class LoopRunner:
    """Runs handlers as tasks of an event loop; those that are plain functions in a pool of threads."""

    def __init__(
        self,
        shared: Shared,
        loop: asyncio.AbstractEventLoop,
        handler: Any,
        interceptors: list[Any],
        tracing: Tracing | None,
    ) -> None:
        self._shared = shared
        self._loop = loop
        self._tracing = tracing
        self._cancellable = handlers.is_async(handler)
        self._pool = None if self._cancellable else Pool(shared.concurrency)
        self._handler = handler
        self._interceptors = interceptors
        #: The loop keeps only weak references to tasks.
        self._tasks: set[asyncio.Task[Outcome]] = set()
        self._just_cancelled: set[asyncio.Task[Outcome]] = set()

    def start(self, leases: list[Held]) -> None:
        """Called by the worker's thread."""
        try:
            self._loop.call_soon_threadsafe(self._start, leases)
        except RuntimeError:  # The loop is closed: whoever ran it has gone.
            for held in leases:
                self._shared.inbox.put(Finished(held, Release()))
            self._shared.give(Order.RELEASE_ALL)

    def cancel(self, leases: list[Held]) -> None:
        """Called by the worker's thread. A plain function cannot be cancelled but by its context."""
        if self._cancellable:
            with contextlib.suppress(RuntimeError):  # The loop is closed, and its tasks are gone.
                self._loop.call_soon_threadsafe(self._cancel, leases)

    def close(self) -> None:
        """Nothing more will be started."""
        if self._pool is not None:
            self._pool.close()

    def _start(self, leases: list[Held]) -> None:
        for held in leases:
            task = _task(self._loop, self._run(held), f"keywork {held.job.queue}/{held.job.key}")
            held.handle = task
            self._tasks.add(task)
            # Not within the task: one that is cancelled before its first step never gets there.
            task.add_done_callback(functools.partial(self._ended, held))

    def _cancel(self, leases: list[Held]) -> None:
        for held in leases:
            task = held.handle
            if not isinstance(task, asyncio.Task) or task.done():
                continue
            if task in self._just_cancelled:
                # Two at once would be one to the task: it is to feel both.
                self._loop.call_later(BETWEEN_CANCELS, self._cancel, [held])
                continue
            task.cancel()
            self._just_cancelled.add(task)
            self._loop.call_later(BETWEEN_CANCELS, self._just_cancelled.discard, task)

    async def _run(self, held: Held) -> Outcome:
        if held.context.cancelled:
            return Release()
        handler = self._handler if self._cancellable else self._in_thread(held)
        call = handlers.chain(self._interceptors, handler)
        around = Around(held.context, held.job, self._tracing)
        with around:
            around.returned(await call(held.context, held.job))
        return around.outcome

    def _ended(self, held: Held, task: asyncio.Task[Outcome]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if task.cancelled():
            outcome: Outcome = Release()
        else:
            outcome = outcomes.of_error(error) if error is not None else task.result()
        self._report(held, outcome)

    def _in_thread(self, held: Held) -> Any:
        async def call(context: Context, job: Job) -> object:
            assert self._pool is not None
            variables = contextvars.copy_context()
            held.thread = self._pool.submit(variables.run, _plain, self._handler, context, job)
            return await asyncio.wrap_future(held.thread)

        return call

    def _report(self, held: Held, outcome: Outcome) -> None:
        """Says that the handler is over, and not before its thread is."""
        thread: Future[Any] | None = held.thread
        if thread is None or thread.done():
            self._shared.inbox.put(Finished(held, outcome))
        else:
            thread.add_done_callback(lambda _: self._shared.inbox.put(Finished(held, outcome)))


if sys.version_info >= (3, 11):

    def _task(loop: asyncio.AbstractEventLoop, run: Coroutine[Any, Any, Outcome], name: str) -> asyncio.Task[Outcome]:
        return loop.create_task(run, name=name)

else:

    class _Task(asyncio.Task[Outcome]):
        """Knows that it was cancelled, as tasks do from Python 3.11 on."""

        _cancels = 0

        def cancel(self, msg: Any = None) -> bool:
            cancelled = super().cancel(msg)
            self._cancels += cancelled
            return cancelled

        def cancelling(self) -> int:
            return self._cancels

    def _task(loop: asyncio.AbstractEventLoop, run: Coroutine[Any, Any, Outcome], name: str) -> asyncio.Task[Outcome]:
        return _Task(run, loop=loop, name=name)


class ThreadRunner:
    """Runs handlers that are plain functions on threads."""

    def __init__(self, shared: Shared, handler: Any, interceptors: list[Any], tracing: Tracing | None) -> None:
        self._shared = shared
        self._call = handlers.chain(interceptors, handler)
        self._tracing = tracing
        self._pool = Pool(shared.concurrency)

    def start(self, leases: list[Held]) -> None:
        """Called by the worker's thread."""
        for held in leases:
            self._pool.submit(self._run, held)

    def cancel(self, leases: list[Held]) -> None:
        """Their contexts tell them; a thread cannot be told otherwise."""

    def close(self) -> None:
        """Nothing more will be started."""
        self._pool.close()

    def _run(self, held: Held) -> None:
        around = Around(held.context, held.job, self._tracing)
        try:
            # What would end more than a thread, as a SystemExit, does not end the process from here either.
            with contextlib.suppress(BaseException):
                if not held.context.cancelled:
                    with around:
                        around.returned(handlers.ended(self._call(held.context, held.job)))
        finally:
            self._shared.inbox.put(Finished(held, around.outcome))


def _plain(handler: Any, context: Context, job: Job) -> Outcome:
    return handlers.ended(handler(context, job))
