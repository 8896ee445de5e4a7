"""What a handler knows of its lease, and how it learns to stop."""

from __future__ import annotations

import threading
import time
from enum import Enum


class CancelReason(Enum):
    """Why a handler is to stop."""

    #: The lease is lost, or can no longer be known to hold. What the handler returns is dropped.
    LEASE_LOST = 1
    #: The job was cancelled, or its queue purged or deleted. What the handler returns is dropped.
    JOB_CANCELLED = 2
    #: The worker is stopping and its grace is over. What the handler returns counts; an ordinary error gives the
    #: job back without costing an attempt.
    WORKER_SHUTDOWN = 3


class Cancelled(Exception):  # noqa: N818 - it is no error of the handler.
    """Raised by `Context.raise_if_cancelled`."""

    def __init__(self, reason: CancelReason) -> None:
        super().__init__(reason.name)
        #: Why the handler is to stop.
        self.reason = reason


#: Cancelling is rare and short: one lock for all contexts.
_LOCK = threading.Lock()


class Context:
    """A handler's view of its lease. It may be used from any thread.

    When it is cancelled the handler must stop its effects: somebody else may be about to run the job. The task of an
    ``async def`` handler is cancelled as well.
    """

    __slots__ = ("_deadline", "_event", "_reason")

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._reason: CancelReason | None = None
        self._event: threading.Event | None = None

    @property
    def cancelled(self) -> bool:
        """True: the handler is to stop."""
        return self._reason is not None

    @property
    def reason(self) -> CancelReason | None:
        """Why the handler is to stop; None while it is not."""
        return self._reason

    @property
    def deadline(self) -> float:
        """When the handler is to stop unless the lease is extended by then, on the clock of `time.monotonic`.

        Heartbeats move it while the handler runs.
        """
        return self._deadline

    def time_left(self) -> float:
        """Seconds until the deadline."""
        return max(0.0, self._deadline - time.monotonic())

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until the handler is to stop, or the timeout is over; True: it is to stop.

        For plain functions: a sleep that ends early.
        """
        with _LOCK:
            if self._reason is not None:
                return True
            if self._event is None:
                self._event = threading.Event()
            event = self._event
        return event.wait(timeout)

    def raise_if_cancelled(self) -> None:
        """Raises `Cancelled` when the handler is to stop: for loops that do not await."""
        if self._reason is not None:
            raise Cancelled(self._reason)

    def _cancel(self, reason: CancelReason) -> None:
        """Cancels; the first reason stays."""
        with _LOCK:
            if self._reason is None:
                self._reason = reason
            if self._event is not None:
                self._event.set()

    def __repr__(self) -> str:
        state = self._reason.name if self._reason is not None else f"{self.time_left():.1f} s left"
        return f"<Context {state}>"
