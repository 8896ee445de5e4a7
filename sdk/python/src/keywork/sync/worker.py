"""Running jobs without an event loop: handlers are plain functions, each on a thread."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from keywork import _options, handlers
from keywork._log import log
from keywork._signals import LOOK_EVERY, heard
from keywork._worker.runners import ThreadRunner
from keywork._worker.stop import FLUSH_WITHIN
from keywork.errors import WorkerError
from keywork.worker import BaseWorker, make_shared, start

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from keywork._wire import Seconds
    from keywork.context import Context
    from keywork.events import Event
    from keywork.handlers import SyncInterceptor
    from keywork.job import Job
    from keywork.sync.client import Client


class Worker(BaseWorker):
    """As `keywork.Worker`, with `run` that blocks.

    ``with worker:`` runs it beside the block, and drains it at the end. Python cannot interrupt a block from another
    thread: one that waits for long does so with `wait`, which raises at once when the worker ends with an error.
    """

    def __init__(
        self,
        client: Client,
        queues: Sequence[str] | Mapping[str, int] | str,
        handler: Callable[[Context, Job], object],
        *,
        concurrency: int = 16,
        shutdown_grace: Seconds = 25.0,
        cancel_grace: Seconds = 1.0,
        worker_id: str | None = None,
        interceptors: Sequence[SyncInterceptor] = (),
        on_event: Callable[[Event], object] | None = None,
    ) -> None:
        """Makes a worker; nothing is connected yet. See `keywork.Worker` for the options."""
        if handlers.is_async(handler):
            raise TypeError("the handler is an async def: use keywork.Worker for it")
        super().__init__(make_shared(client, queues, concurrency, shutdown_grace, cancel_grace, worker_id, on_event))
        handler = _options.function("the handler", handler, ("context", "job"))
        around = _options.functions("interceptors", interceptors, ("context", "job", "following"))
        self._runner = ThreadRunner(self._shared, handler, around, client._tracing)
        self._ended = threading.Event()
        self._error: WorkerError | None = None

    def run(self) -> None:
        """Works until SIGTERM or SIGINT, then drains. To be called from the main thread; elsewhere use `run_until`.

        Raises:
            WorkerError: It ended otherwise than because it was asked to.
        """
        with heard(self._shared.signalled):
            self._start()
            self._wait()

    def run_until(self, stop: threading.Event | None = None) -> None:
        """As `run`, and signals are the caller's: works until the event is set, or `drain` is called."""
        if stop is not None and not isinstance(stop, threading.Event):
            raise TypeError(f"stop must be a threading.Event, and is {stop!r}")
        self._start()
        if stop is not None:
            threading.Thread(target=self._drain_when, args=(stop,), name="keywork-stop", daemon=True).start()
        self._wait()

    def _drain_when(self, stop: threading.Event) -> None:
        stop.wait()
        self.drain()

    def _start(self, done: Callable[[WorkerError | None], None] | None = None) -> None:
        self._begin()
        start(self._shared, self._runner, done or self._done)

    def _done(self, error: WorkerError | None) -> None:
        self._error = error
        self._ended.set()

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Blocks until the worker has ended, or the timeout is over; True: it has ended.

        For a ``with`` block, in the place of a sleep.

        Raises:
            WorkerError: It ended otherwise than because it was asked to.
        """
        if not self._shared.started:
            raise RuntimeError("this worker has not been started: nobody would end the wait")
        limit = None if timeout is None else _options.not_negative("timeout", timeout)
        ended = self._ended.wait(limit)
        if ended and self._error is not None:
            raise self._error
        return ended

    def _wait(self) -> None:
        try:
            # A thread that waits without end may not hear a signal that came just before.
            while not self.wait(LOOK_EVERY):
                pass
        except WorkerError:
            raise
        except BaseException:
            # As a KeyboardInterrupt, where signals are the caller's.
            self.release_all()
            # A moment for handlers to end and releases to be confirmed.
            self._ended.wait(FLUSH_WITHIN + 1.0)
            raise

    def __enter__(self) -> Worker:
        """Starts it beside the block; signals are the caller's."""
        self._start(self._done_beside_a_block)
        return self

    def _done_beside_a_block(self, error: WorkerError | None) -> None:
        if error is not None:
            # The block learns of it at its end only, or when it waits.
            with contextlib.suppress(Exception):
                log.error("the worker beside a block has ended: %s", error)
        self._done(error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drains it; raises what `run` would."""
        self.drain()
        self._wait()
