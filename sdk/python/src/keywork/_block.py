"""An ``async with`` block beside a task: when the task fails, the block is cancelled, and raises the task's error."""

from __future__ import annotations

import asyncio
from typing import Any


class Block:
    """The block that the current task is about to run."""

    def __init__(self, beside: asyncio.Task[None]) -> None:
        self._beside = beside
        task: Any = asyncio.current_task()
        self._task = task
        #: How often the task was cancelled before, by others. Python 3.10 does not count that.
        self._before = task.cancelling() if hasattr(task, "cancelling") else 0
        self._over = False
        self._cancelled = False
        beside.add_done_callback(self._on_done)

    def _on_done(self, beside: asyncio.Task[None]) -> None:
        failed = not beside.cancelled() and beside.exception() is not None
        if failed and not self._over and not self._task.done():
            self._cancelled = True
            self._task.cancel()

    async def end(self) -> None:
        """The block is over: waits for the task, and raises its error."""
        self._over = True
        if self._cancelled and hasattr(self._task, "uncancel") and self._task.uncancel() > self._before:
            # Somebody else has cancelled the block's task too.
            raise asyncio.CancelledError
        try:
            await self._beside
        except Exception as error:
            # That the block was cancelled, and by whom, tells nobody anything.
            error.__suppress_context__ = self._cancelled or error.__suppress_context__
            raise
