"""Running jobs: one session with a server, a handler for each job, and the fences around them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
import uuid
from typing import TYPE_CHECKING, Any

from keywork import _options
from keywork._block import Block
from keywork._core import Core
from keywork._worker.driver import Driver
from keywork._worker.runners import LoopRunner
from keywork._worker.shared import Shared
from keywork._worker.stop import FLUSH_WITHIN, Order
from keywork.errors import WorkerBrokenError, WorkerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType, TracebackType

    from keywork._wire import Seconds
    from keywork._worker.shared import Runner
    from keywork.client import Client
    from keywork.events import Counts, Event
    from keywork.handlers import Handler, Interceptor


class BaseWorker:
    """What the async and the sync worker have in common."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def drain(self) -> None:
        """Takes no more jobs, finishes what runs within the shutdown grace, and ends `run`.

        May be called from any thread.
        """
        self._shared.give(Order.DRAIN)

    def release_all(self) -> None:
        """Cancels every handler, releases its job, and ends `run` with `WorkerForcedError`: what a second signal does.

        May be called from any thread.
        """
        self._shared.give(Order.RELEASE_ALL)

    def healthy(self) -> bool:
        """True while the session with a server is live."""
        return self._shared.healthy

    def counts(self) -> Counts:
        """What it has done so far."""
        counts = self._shared.counts
        return type(counts)(counts.started, counts.settled, counts.leases_lost, counts.dropped_results, counts.sessions)

    @property
    def worker_id(self) -> str:
        """Its name, as servers know it."""
        return self._shared.worker_id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.worker_id} healthy={self.healthy()}>"

    def _begin(self) -> None:
        if self._shared.started:
            raise already_started()
        self._shared.started = True


class Worker(BaseWorker):
    """Runs the jobs of one or more queues.

    It keeps its leases alive from a thread of its own, cancels a handler before its lease can have been given to
    somebody else, reconnects by itself, and stops without losing an attempt. It never settles what a handler returned
    after its lease was lost.

    ``async with worker:`` runs it beside the block, and drains it at the end. When the worker ends with an error before
    that, the block is cancelled and raises the error, as that of an ``asyncio.TaskGroup`` does.
    """

    def __init__(
        self,
        client: Client,
        queues: Sequence[str] | Mapping[str, int] | str,
        handler: Handler,
        *,
        concurrency: int = 16,
        shutdown_grace: Seconds = 25.0,
        cancel_grace: Seconds = 1.0,
        worker_id: str | None = None,
        interceptors: Sequence[Interceptor] = (),
        on_event: Callable[[Event], object] | None = None,
    ) -> None:
        """Makes a worker; nothing is connected yet.

        Args:
            client: Knows the servers. The worker has connections of its own.
            queues: The queues to serve; a mapping gives each its share (1 to 100) against the others.
            handler: Runs a job; ``async def``, or a plain function, which runs on a thread.
            concurrency: How many handlers run at once, which is how many leases the worker holds: 1 to 100,000.
            shutdown_grace: How long running handlers may take to end after the worker was told to stop, before they
                are cancelled.
            cancel_grace: How long a handler may take to end after it was cancelled because the worker stops, before
                it is left behind.
            worker_id: Names this process at the servers. A newer worker of the same name takes over from an older
                one, so no two that run at once may share it. Default: one made of host, process and chance.
            interceptors: Wrap every handler call; the first one is the outermost.
            on_event: Told of everything that happens, on the thread that keeps the leases alive: it must not block.
        """
        super().__init__(make_shared(client, queues, concurrency, shutdown_grace, cancel_grace, worker_id, on_event))
        self._handler = _options.function("the handler", handler, ("context", "job"))
        self._interceptors = _options.functions("interceptors", interceptors, ("context", "job", "following"))
        self._tracing = client._tracing
        self._block: Block | None = None

    async def run(self) -> None:
        """Works until SIGTERM or SIGINT, then drains.

        A second signal releases everything and raises `WorkerForcedError`. To be called from the main thread, where
        Python handles signals; elsewhere use `run_until`. Cancelling it cancels the handlers and releases their jobs.

        Raises:
            WorkerError: It ended otherwise than because it was asked to. A lost connection is no reason: the worker
                reconnects.
        """
        with signals(self._shared):
            await self._run()

    async def run_until(self, stop: asyncio.Event | None = None) -> None:
        """As `run`, and signals are the caller's: works until the event is set, or `drain` is called."""
        waiting = None if stop is None else asyncio.ensure_future(self._drain_when(stop))
        try:
            await self._run()
        finally:
            if waiting is not None:
                waiting.cancel()

    async def _drain_when(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.drain()

    async def _run(self) -> None:
        self._begin()
        loop = asyncio.get_running_loop()
        runner = LoopRunner(self._shared, loop, self._handler, self._interceptors, self._tracing)
        ended: asyncio.Future[WorkerError | None] = loop.create_future()

        def tell(error: WorkerError | None) -> None:
            if not ended.done():
                ended.set_result(error)

        def done(error: WorkerError | None) -> None:
            # The loop is closed when whoever ran it did not wait for the end.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(tell, error)

        start(self._shared, runner, done)
        try:
            error = await asyncio.shield(ended)
        except asyncio.CancelledError:
            self.release_all()
            # A moment for handlers to end and releases to be confirmed; nobody is left to be told of an error.
            await asyncio.wait([ended], timeout=FLUSH_WITHIN + 1.0)
            raise
        if error is not None:
            raise error

    async def __aenter__(self) -> Worker:
        """Starts it beside the block; signals are the caller's.

        Where the worker ends with an error, the block is cancelled at what it awaits, and raises that error.
        """
        if self._shared.started:
            raise already_started()
        self._block = Block(asyncio.ensure_future(self.run_until()))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Drains it; raises what `run` would."""
        assert self._block is not None
        self.drain()
        await self._block.end()


def already_started() -> RuntimeError:
    """A worker runs once."""
    return RuntimeError("this worker has been started before: make another")


def make_shared(
    client: Any,
    queues: Sequence[str] | Mapping[str, int] | str,
    concurrency: int,
    shutdown_grace: Seconds,
    cancel_grace: Seconds,
    worker_id: str | None,
    on_event: Callable[[Event], object] | None,
) -> Shared:
    """A worker's options, checked."""
    if not isinstance(client, Core):
        raise TypeError(f"client must be a keywork.Client, and is {client!r}")
    if worker_id is None:
        worker_id = f"{socket.gethostname()[:64]}-{os.getpid()}-{uuid.uuid4().hex[:12]}"
    return Shared(
        options=client._channels.options,
        queues=_options.weights(queues),
        concurrency=_options.whole("concurrency", concurrency, 1, _options.MOST_HANDLERS),
        shutdown_grace=_options.not_negative("shutdown_grace", shutdown_grace),
        cancel_grace=_options.not_negative("cancel_grace", cancel_grace),
        worker_id=_options.worker_id(worker_id),
        on_event=_options.listener(on_event),
    )


def start(shared: Shared, runner: Runner, done: Callable[[WorkerError | None], None]) -> None:
    """Starts the worker's thread; `done` is called by it at its end."""

    def work() -> None:
        error: WorkerError | None = WorkerBrokenError()
        try:
            driver = Driver(shared, runner)
            driver.run()
            error = driver.error
            runner.close()
        finally:
            shared.close()
            # Whoever waits for the end must not wait for ever.
            done(error)

    threading.Thread(target=work, name="keywork-worker", daemon=True).start()


@contextlib.contextmanager
def signals(shared: Shared) -> Iterator[None]:
    """Listens to SIGTERM and SIGINT meanwhile.

    The handlers are Python's own and not the loop's, since a loop that is blocked by a handler runs none.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("run() handles signals, which Python allows in the main thread only: use run_until()")

    def on_signal(number: int, frame: FrameType | None) -> None:
        shared.signalled()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: it was installed by something other than Python, which cannot be put back from here.
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
