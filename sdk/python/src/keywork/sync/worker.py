"""Running jobs without an event loop: handlers are plain functions, each on a thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from keywork import handlers
from keywork._worker.runners import ThreadRunner
from keywork.worker import BaseWorker, make_shared, signals, start

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from keywork._wire import Seconds
    from keywork.context import Context
    from keywork.errors import WorkerError
    from keywork.events import Event
    from keywork.handlers import SyncInterceptor
    from keywork.job import Job
    from keywork.sync.client import Client


class Worker(BaseWorker):
    """As `keywork.Worker`, with `run` that blocks; ``with worker:`` runs it beside the block."""

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
        super().__init__(
            make_shared(
                client._channels.options,
                queues,
                concurrency,
                shutdown_grace,
                cancel_grace,
                worker_id,
                on_event,
            )
        )
        self._runner = ThreadRunner(self._shared, handler, list(interceptors), client._tracing)
        self._ended = threading.Event()
        self._error: WorkerError | None = None

    def run(self) -> None:
        """Works until SIGTERM or SIGINT, then drains. To be called from the main thread; elsewhere use `run_until`.

        Raises:
            WorkerError: It ended otherwise than because it was asked to.
        """
        with signals(self._shared):
            self._start()
            self._wait()

    def run_until(self, stop: threading.Event | None = None) -> None:
        """As `run`, and signals are the caller's: works until the event is set, or `drain` is called."""
        self._start()
        if stop is not None:
            threading.Thread(target=self._drain_when, args=(stop,), name="keywork-stop", daemon=True).start()
        self._wait()

    def _drain_when(self, stop: threading.Event) -> None:
        stop.wait()
        self.drain()

    def _start(self) -> None:
        self._begin()
        start(self._shared, self._runner, self._done)

    def _done(self, error: WorkerError | None) -> None:
        self._error = error
        self._ended.set()

    def _wait(self) -> None:
        try:
            self._ended.wait()
        except BaseException:
            # As a KeyboardInterrupt, where signals are the caller's.
            self.release_all()
            raise
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Worker:
        """Starts it beside the block; signals are the caller's."""
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drains it; raises what `run` would."""
        self.drain()
        self._wait()
