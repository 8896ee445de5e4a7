"""What must not be waited for: it is done in order, on a thread of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue

#: How long a worker that stops waits for what is still to be done.
LINGER = 1.0


class Aside:
    """One such thread, which begins with the first thing that there is to do."""

    def __init__(self, name: str, most: int, on_dropped: Callable[[int], None]) -> None:
        self._name = name
        self._most = most
        self._on_dropped = on_dropped
        self._things: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._dropped = 0
        self._thread: threading.Thread | None = None

    def do(self, thing: Callable[[], object]) -> None:
        """Does it soon. When more than `most` wait, because one does not end, it is dropped and counted."""
        if self._things.qsize() >= self._most:
            self._dropped += 1
            return
        self._things.put(thing)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """There is nothing more to do; waits a moment for what is not done yet."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._things.put(None)
            self._thread.join(LINGER)

    def _run(self) -> None:
        while (thing := self._things.get()) is not None:
            # Whatever it raises is no reason to leave the rest undone; who cares for it looks after it within.
            with contextlib.suppress(BaseException):
                thing()
            if self._dropped and self._things.empty():
                dropped, self._dropped = self._dropped, 0
                with contextlib.suppress(BaseException):
                    self._on_dropped(dropped)
