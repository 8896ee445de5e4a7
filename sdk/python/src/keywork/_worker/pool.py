"""Threads for handlers that are plain functions.

The standard library's pool joins its threads when the interpreter exits, so one handler that never returns would keep
the process for ever, also after a second signal. These threads do not.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_Work = tuple["Future[Any]", "Callable[..., Any]", tuple[Any, ...]]


class Pool:
    """At most `size` threads, started as they are needed."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._threads = 0

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Runs a function on one of the threads."""
        future: Future[Any] = Future()
        self._work.put((future, function, args))
        if not self._idle.acquire(blocking=False):
            self._grow()
        return future

    def close(self) -> None:
        """Ends the threads, each when it has nothing to do any more."""
        with self._lock:
            for _ in range(self._threads):
                self._work.put(None)

    def _grow(self) -> None:
        with self._lock:
            if self._threads == self._size:
                return
            name = f"keywork-handler-{self._threads + 1}"
            try:
                threading.Thread(target=self._run, name=name, daemon=True).start()
            except RuntimeError:
                # The system has no more threads: the work waits for those that there are.
                if self._threads == 0:
                    raise
                return
            self._threads += 1

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            future, function, args = work
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(*args))
                except BaseException as error:  # noqa: BLE001 - whoever waits for it is told.
                    future.set_exception(error)
            del work, future
            self._idle.release()
