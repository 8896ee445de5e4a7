"""What a worker writes to the log, by the logger ``keywork``.

What the thread that keeps the leases alive has to say is written on another thread: a log that is slow, full or broken
costs no lease. A handler's error is written where the handler ran, within its context.
"""

from __future__ import annotations

import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from keywork import events
from keywork._log import Outage, log
from keywork._worker.aside import Aside
from keywork.outcomes import Fail, Retry, settled_as

if TYPE_CHECKING:
    from keywork.context import Context
    from keywork.events import Event
    from keywork.job import Job
    from keywork.outcomes import Outcome

#: The most messages that wait for a log that is slow.
WAITING = 10_000
#: What follows from a job's last failure.
LAST = "it was the job's last attempt: it is a dead letter"


class Logs:
    """One worker's log."""

    def __init__(self) -> None:
        self._aside = Aside(
            "keywork-log", WAITING, partial(log.warning, "%d messages were not logged: the log is slow")
        )
        self._outage = Outage()
        self._unanswered = False

    def write(self, level: int, text: str, *args: Any) -> None:
        """Writes it soon."""
        self._aside.do(partial(log.log, level, text, *args))

    def tell(self, event: Event, now: float) -> None:
        """Something has happened."""
        if isinstance(event, events.Connecting):
            self.write(logging.DEBUG, "connecting to %s", event.endpoint)
        elif isinstance(event, events.Ready):
            self._outage.is_over()
            self._unanswered = False
            self.write(logging.INFO, "ready: the session with %s is open", event.endpoint)
        elif isinstance(event, events.Degraded):
            level = logging.WARNING if self._outage.is_to_be_warned_of(now) else logging.DEBUG
            self.write(level, "no session with %s, trying again: %s", event.endpoint, event.error)
        elif isinstance(event, events.Draining):
            self.write(logging.INFO, "draining: no more jobs are taken")
        elif isinstance(event, events.Stopped):
            self._stopped(event)
        elif isinstance(event, events.LeaseLost):
            why = event.reason.name if event.reason is not None else "it could not be extended in time"
            self.write(logging.WARNING, "lost the lease of key %r of queue %s: %s", event.key, event.queue, why)
        elif isinstance(event, events.SettlementRejected):
            text = "the settlement of key %r of queue %s was refused: %s"
            self.write(logging.WARNING, text, event.key, event.queue, event.error)
        elif isinstance(event, events.HandlerIgnoresCancellation):
            text = "the handler of key %r of queue %s still runs, %.1f s after it was cancelled"
            self.write(logging.WARNING, text, event.key, event.queue, event.cancelled_for)
        # What became of each job would be too much, and the error that it ends with is raised.

    def unanswered(self, endpoint: str) -> None:
        """A server does not answer; it may take long until that counts as an error. Told once in an outage."""
        if not self._outage.is_known and not self._unanswered:
            self._unanswered = True
            self.write(logging.WARNING, "no answer from %s yet", endpoint)

    def _stopped(self, event: events.Stopped) -> None:
        if event.abandoned:
            self.write(logging.WARNING, "stopped, with %d handlers left behind that did not end", event.abandoned)
        if event.unconfirmed:
            text = "stopped, with %d results of handlers unconfirmed: their jobs run again when their leases are over"
            self.write(logging.WARNING, text, event.unconfirmed)
        if not event.abandoned and not event.unconfirmed:
            self.write(logging.INFO, "stopped")

    def close(self) -> None:
        """Waits a moment until everything is written."""
        self._aside.close()


def handler_ended(context: Context, job: Job, outcome: Outcome, error: BaseException | None) -> None:
    """A handler ended: says so where that was an ordinary error, or the job's death."""
    if isinstance(outcome, Retry) and not outcome.chosen:
        _handler_failed(context, job, outcome.because, error)
    elif settled_as(outcome, context.reason) is None:
        return  # It is dropped.
    elif isinstance(outcome, Fail):
        _write(logging.WARNING, job, "for good, as it says: it is a dead letter", outcome.reason)
    elif isinstance(outcome, Retry) and _is_last(job):
        _write(logging.WARNING, job, LAST, outcome.because)


def _handler_failed(context: Context, job: Job, text: str, error: BaseException | None) -> None:
    """An ordinary error. One of a handler that was told to stop is most likely due to that."""
    if context.reason is not None:
        _write(logging.DEBUG, job, f"after it was cancelled: {context.reason.name}", text, error)
    else:
        _write(logging.WARNING, job, LAST if _is_last(job) else "the job is tried again", text, error)


def _is_last(job: Job) -> bool:
    return 0 < job.max_attempts <= job.attempt


def _write(level: int, job: Job, follows: str, text: str, error: BaseException | None = None) -> None:
    form = "the handler of key %r of queue %s failed in attempt %d (%s): %s"
    # A log that is broken is no reason to lose what became of the job.
    with contextlib.suppress(Exception):
        log.log(level, form, job.key, job.queue, job.attempt, follows, text, exc_info=error)
