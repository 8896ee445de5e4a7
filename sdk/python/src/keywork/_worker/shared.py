"""What a worker's owner, its loop and its handlers share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from keywork import events
from keywork._log import log
from keywork._worker.aside import Aside
from keywork._worker.logs import Logs
from keywork._worker.stop import Order

if TYPE_CHECKING:
    from keywork._connection import Options
    from keywork._worker.leases import Held
    from keywork.leases import SettledOutcome
    from keywork.outcomes import Outcome

#: The most events that wait for a callback that is slow.
MOST_EVENTS = 100_000


class Finished:
    """A handler has ended."""

    __slots__ = ("held", "outcome")

    def __init__(self, held: Held, outcome: Outcome) -> None:
        self.held = held
        self.outcome = outcome


class Runner(Protocol):
    """Where handlers run. Each that was started is reported as `Finished`, once, when it is really over."""

    def start(self, leases: list[Held]) -> None:
        """Runs the handlers of these."""

    def cancel(self, leases: list[Held]) -> None:
        """Their contexts were cancelled."""

    def close(self) -> None:
        """Nothing more will be started."""


@dataclass
class Shared:
    """One worker."""

    options: Options
    #: Weights, by queue.
    queues: dict[str, int]
    concurrency: int
    shutdown_grace: float
    cancel_grace: float
    worker_id: str
    on_event: Callable[[events.Event], object] | None
    counts: events.Counts = field(default_factory=events.Counts)
    healthy: bool = False
    #: Its put may be called from any thread, also within a signal handler.
    inbox: SimpleQueue[Any] = field(default_factory=SimpleQueue)
    order: Order = Order.WORK
    #: How many have come.
    signals: int = 0
    started: bool = False
    logs: Logs = field(default_factory=Logs)

    def __post_init__(self) -> None:
        self._telling = Aside("keywork-events", MOST_EVENTS, self._not_told)

    def give(self, order: Order) -> None:
        """Gives an order, unless a stronger one was given."""
        if order > self.order:
            self.order = order
            self.inbox.put(order)

    def signalled(self) -> None:
        """SIGTERM or SIGINT came: the first drains, as `drain` may have done before, the second releases everything."""
        self.signals += 1
        self.give(Order.DRAIN if self.signals == 1 else Order.RELEASE_ALL)

    def tell(self, event: events.Event) -> None:
        """Logs it and tells the owner, whose callback may block or fail: neither the worker nor its leases suffer."""
        self.logs.tell(event, time.monotonic())
        if self.on_event is not None:
            self._telling.do(partial(self._call, self.on_event, event))

    def _call(self, on_event: Callable[[events.Event], object], event: events.Event) -> None:
        try:
            on_event(event)
        except BaseException:  # noqa: BLE001 - nothing of it is the worker's.
            log.exception("on_event failed at %r", event)

    def _not_told(self, count: int) -> None:
        log.warning("on_event was not told of %d events: it is too slow", count)

    def close(self) -> None:
        """The worker is over; waits a moment until everything is told."""
        self._telling.close()
        self.logs.close()

    def tell_settled(self, held: Held, outcome: SettledOutcome) -> None:
        """Tells the owner of what happens with every job: nothing is made where nobody listens."""
        if self.on_event is not None:
            job = held.job
            event = events.Settled(job.queue, job.key, job.id, job.fencing_number, outcome)
            self._telling.do(partial(self._call, self.on_event, event))
