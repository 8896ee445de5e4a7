"""Listening to SIGTERM and SIGINT, also while handlers block the event loop."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator
    from types import FrameType

#: How long a thread without a loop waits at a time: see `woken`.
LOOK_EVERY = 0.25


@contextlib.contextmanager
def heard(signalled: Callable[[], None]) -> Iterator[None]:
    """Calls this at each of them meanwhile.

    The handlers are Python's own and not the loop's, since a loop that is blocked by a handler runs none.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("run() handles signals, which Python allows in the main thread only: use run_until()")

    def on_signal(number: int, frame: FrameType | None) -> None:
        signalled()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: it was installed by something other than Python, which cannot be put back from here.
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


@contextlib.contextmanager
def woken(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Wakes the loop at every signal meanwhile.

    Python calls the handler of a signal as soon as the main thread does anything. A signal that comes when that thread
    is just about to wait, or that another thread is given, would not be heard before something else happens.
    """
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.setblocking(False)
        writer.setblocking(False)
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        if before != -1:  # The loop has seen to it by itself.
            signal.set_wakeup_fd(before)
            yield
            return
        loop.add_reader(reader, reader.recv, 4_096)
        try:
            yield
        finally:
            loop.remove_reader(reader)
            now = signal.set_wakeup_fd(-1)
            if now != writer.fileno():  # The loop has begun to.
                signal.set_wakeup_fd(now)
