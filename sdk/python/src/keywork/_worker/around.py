"""What is around a handler, wherever it runs: the span of its trace, the log of its errors, and what its end means."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from keywork import outcomes
from keywork._log import log
from keywork._worker import logs
from keywork.outcomes import Complete, Outcome, Release

if TYPE_CHECKING:
    from types import TracebackType

    from keywork.context import Context
    from keywork.job import Job
    from keywork.tracing import Tracing


class Around:
    """One run of a handler, as ``with around: around.returned(handler(…))``. An error of it ends there."""

    def __init__(self, context: Context, job: Job, tracing: Tracing | None) -> None:
        self._context = context
        self._job = job
        self._tracing = tracing
        self._span: AbstractContextManager[object] | None = None
        #: How the handler ended.
        self.outcome: Outcome = Release()

    def returned(self, result: object) -> None:
        """The handler has returned this."""
        self.outcome = outcomes.of_result(result)
        self._log(None)

    def __enter__(self) -> Around:
        if self._tracing is not None:
            try:
                span = self._tracing.handling(self._job)
                span.__enter__()
                self._span = span
            except Exception:  # noqa: BLE001 - the job is worth more than its trace.
                with contextlib.suppress(Exception):
                    log.warning("tracing failed: a handler runs without a span", exc_info=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is not None:
            self._raised(error)
        self._end_span(error)
        # These end more than the handler.
        return not isinstance(error, (SystemExit, KeyboardInterrupt, GeneratorExit))

    def _raised(self, error: BaseException) -> None:
        if isinstance(error, asyncio.CancelledError) and not self._context.cancelled and _is_cancelled():
            return  # By somebody else, as when the loop ends: the job goes back.
        self.outcome = outcomes.of_error(error)
        self._log(error)

    def _log(self, error: BaseException | None) -> None:
        logs.handler_ended(self._context, self._job, self.outcome, error)

    def _end_span(self, error: BaseException | None) -> None:
        if self._span is None:
            return
        told: Any = outcomes.settled_as(self.outcome, self._context.reason) or self.outcome
        if isinstance(told, Complete):
            told = None
        elif outcomes.is_ordinary_error(told):
            told = error or told
        with contextlib.suppress(Exception):
            self._span.__exit__(type(told) if told is not None else None, told, getattr(told, "__traceback__", None))


def _is_cancelled() -> bool:
    """Somebody has cancelled the task that this runs in."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # On a thread without a loop.
        return False
    cancelling = getattr(task, "cancelling", None)
    return cancelling is not None and cancelling() > 0
