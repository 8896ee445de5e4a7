"""The worker's loop: one thread that holds all state of the session.

Everything that happens comes through one inbox. Nothing that the loop calls waits; messages are sent when there is
room for them.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from queue import Empty
from typing import TYPE_CHECKING

from keywork import _stream, events
from keywork._backoff import Backoff
from keywork._worker.beats import Beats
from keywork._worker.leases import Held, Leases
from keywork._worker.link import Link
from keywork._worker.outbox import Outbox
from keywork._worker.sending import Sending
from keywork._worker.session import Receiving, Session
from keywork._worker.shared import Finished, Runner, Shared
from keywork._worker.stop import FLUSH_WITHIN, Order, Stop
from keywork.context import CancelReason
from keywork.errors import WorkerBrokenError, WorkerError, WorkerForcedError
from keywork.outcomes import Release, settled_as

if TYPE_CHECKING:
    from typing import Any

    from keywork._worker.leases import Terms
    from keywork.leases import LostReason

#: How much of the inbox is taken at once.
TAKEN = 1_000
#: When a server that does not answer is told of: long before it is given up.
ANSWER_WITHIN = 0.75
#: When a handler that goes on after its cancellation is told of.
STUBBORN = 5.0
#: A time that never comes.
FAR = 86_400.0


class Driver(Receiving, Sending):
    """The loop's state, and what moves it but for the server."""

    def __init__(self, shared: Shared, runner: Runner) -> None:
        now = time.monotonic()
        self.shared = shared
        self.runner = runner
        self.link = Link(shared.options, shared.inbox, now)
        self.leases = Leases()
        self.beats = Beats(now)
        self.outbox = Outbox()
        #: Leases that wait for a handler slot.
        self.waiting: deque[Held] = deque()
        self.terms: dict[str, Terms] = {}
        self.session = Session(now)
        self.stop = Stop.NO
        #: When the next step of stopping is due.
        self.stop_at = now + FAR
        self.error: WorkerError | None = None
        #: Results of handlers that were given up, since the session can never go on.
        self.given_up = 0
        self.backoff = Backoff()
        #: When a server that is being reached has had its time to answer.
        self.answer_by: float | None = None
        #: When the leases' fences are to be looked at next.
        self.next_sweep = now + FAR

    def run(self) -> None:
        """Works until it is stopped; `error` says how it ended."""
        try:
            self._work()
            self.link.close()
        except Exception as error:  # noqa: BLE001 - whatever it is, handlers must be told.
            self.error = WorkerBrokenError()
            self.error.__cause__ = error
        self._end()

    def _work(self) -> None:
        while True:
            now = time.monotonic()
            self._on_time(now)
            self._obey(now)
            if self._is_over(now):
                return
            self.flush(now)
            self._take(self._wake() - now)

    def _end(self) -> None:
        """Whatever ended it: no handler goes on as if its lease were still being extended."""
        self.link.close_now()
        left = self.leases.occupants()
        for held in left:
            held.context._cancel(CancelReason.LEASE_LOST)
        self._cancel(left)
        self.shared.healthy = False
        if self.error is not None:
            self.shared.tell(events.Failed(self.error))
        self.shared.tell(events.Stopped(len(left), self.given_up + self.leases.unconfirmed))

    def _take(self, patience: float) -> None:
        """Waits for something to happen, and deals with all that has happened."""
        inbox = self.shared.inbox
        with suppress(Empty):
            self._on(inbox.get(timeout=max(0.0, patience)))
            for _ in range(TAKEN):
                self._on(inbox.get_nowait())
        self.start_waiting()

    def _on(self, event: Any) -> None:
        if isinstance(event, Finished):
            self._on_finished(event, time.monotonic())
        elif isinstance(event, _stream.Message):
            if self.link.is_current(event.stream):
                self.on_message(event.message, time.monotonic())
        elif isinstance(event, _stream.Ended) and self.link.is_current(event.stream):
            self.on_end(event.error, time.monotonic())
        # An order is obeyed, and room is used, by the loop's next turn.

    def _wake(self) -> float:
        """The earliest time at which something is due."""
        # Without room for it, the room is waited for instead.
        beat = self.session.next_heartbeat if self.session.live and self.link.has_room() else None
        stopping = self.stop_at if self.stop is not Stop.NO else None
        times = (
            self.link.wake(),
            beat,
            self.answer_by,
            self.session.move_at,
            self.outbox.wake(),
            self.next_sweep,
            stopping,
        )
        return min(at for at in times if at is not None)

    def _on_time(self, now: float) -> None:
        """Does what is due."""
        if self.next_sweep <= now:
            self._sweep(now)
        if self.link.is_too_silent(now):
            self.on_silence(now)
        if self.session.move_at is not None and self.session.move_at <= now:
            self.move_on(now)
        if self.link.is_due_to_connect(now):
            self.shared.tell(events.Connecting(self.link.endpoint))
            self.say_hello(now)
            self.answer_by = now + ANSWER_WITHIN
        if self.answer_by is not None and self.answer_by <= now:
            self.answer_by = None
            if not self.session.live and self.link.is_opening():
                self.shared.logs.unanswered(self.link.endpoint)
        if self.stop is not Stop.NO and self.stop_at <= now:
            self._stop_further(now)

    def _sweep(self, now: float) -> None:
        """Stops every handler whose lease may end before it is extended."""
        due, following = self.leases.fenced(self.session.broke, now)
        for held in due:
            self.lose(held, CancelReason.LEASE_LOST, None, now)
        for held in self.leases.stubborn(STUBBORN, now):
            job = held.job
            self.shared.tell(events.HandlerIgnoresCancellation(job.queue, job.key, now - held.since))
        self.next_sweep = now + FAR if following is None else following
        if self.leases.occupied_by_lost:
            self.sweep_by(now + STUBBORN)

    def sweep_by(self, fence: float) -> None:
        """A fence may have come nearer: look at it in time."""
        self.next_sweep = min(self.next_sweep, fence)

    def lose(self, held: Held, reason: CancelReason, why: LostReason | None, now: float) -> None:
        """A lease is lost: its handler is to stop, and what it returns is dropped."""
        ran = held.handle is not None
        if not self.leases.lose(held, reason, now):
            return
        self.shared.counts.leases_lost += 1
        job = held.job
        self.shared.tell(events.LeaseLost(job.queue, job.key, job.fencing_number, why))
        if ran:
            self._cancel([held])
        self.sweep_by(now + STUBBORN)

    def _on_finished(self, finished: Finished, now: float) -> None:
        held = finished.held
        if held.fence_now(self.session.broke) <= now:
            self.lose(held, CancelReason.LEASE_LOST, None, now)
        if self.leases.finish(held, settled_as(finished.outcome, held.context.reason)):
            self.outbox.push(held)
        else:
            self.shared.counts.dropped_results += 1

    def start_waiting(self) -> None:
        """Starts what waits, as far as there are slots."""
        started: list[Held] = []
        while self.waiting and self.stop is Stop.NO and self.leases.occupied < self.shared.concurrency:
            held = self.waiting.popleft()
            if self.leases.start(held):
                held.handle = _STARTED
                started.append(held)
        if started:
            self.shared.counts.started += len(started)
            self.runner.start(started)

    def _cancel(self, leases: list[Held]) -> None:
        if leases:
            self.runner.cancel(leases)

    def _obey(self, now: float) -> None:
        """Follows an order that has not been followed yet."""
        order = self.shared.order
        if order is Order.DRAIN and self.stop is Stop.NO:
            self._drain(now)
        elif order is Order.RELEASE_ALL and self.stop is not Stop.RELEASING:
            if self.error is None:
                self.error = WorkerForcedError()
            self._release_all(now)

    def _drain(self, now: float) -> None:
        self.shared.tell(events.Draining())
        self.stop, self.stop_at = Stop.DRAINING, now + self.shared.shutdown_grace
        self.give_back_waiting()
        if not self.session.live:
            self.link.hurry(now + FLUSH_WITHIN)

    def give_back_waiting(self) -> None:
        """Gives back what was delivered and has not started."""
        while self.waiting:
            held = self.waiting.popleft()
            if self.leases.give_back(held, Release()):
                self.outbox.push(held)

    def _stop_further(self, now: float) -> None:
        if self.stop is Stop.DRAINING:
            self._cancel_all()
            self.stop, self.stop_at = Stop.CANCELLING, now + self.shared.cancel_grace
        elif self.stop is Stop.CANCELLING:
            self._release_all(now)

    def _release_all(self, now: float) -> None:
        """Every handler is to go; each lease is released when its handler is really gone."""
        stubborn = [held for held in self.leases.occupants() if held.context.cancelled]
        self._cancel_all()
        self._cancel(stubborn)
        self.give_back_waiting()
        self.stop, self.stop_at = Stop.RELEASING, now + FLUSH_WITHIN

    def _cancel_all(self) -> None:
        running = [held for held in self.leases.running() if not held.context.cancelled]
        for held in running:
            held.context._cancel(CancelReason.WORKER_SHUTDOWN)
        self._cancel(running)

    def fail(self, error: WorkerError, now: float) -> None:
        """The session can never go on: handlers are stopped, since nothing extends their leases any more."""
        self.error = error
        self.session.live = False
        self.shared.healthy = False
        self.link.close_now()
        self.given_up = self.leases.unconfirmed
        for held in list(self.leases.held()):
            self.leases.settled(held)
            self.lose(held, CancelReason.LEASE_LOST, None, now)
        self.waiting.clear()
        self.stop, self.stop_at = Stop.CANCELLING, now + self.shared.cancel_grace

    def _is_over(self, now: float) -> bool:
        """Stopping, and nothing is left to wait for."""
        if self.stop is Stop.NO:
            return False
        # A session that is being opened may bring deliveries: they are to be released, not dropped.
        told = self.session.drain_acknowledged if self.session.live else not self.link.is_opening()
        done = told and self.leases.is_empty()
        return done or (self.stop is Stop.RELEASING and self.stop_at <= now)


#: What a lease's handle is until its runner sets another.
_STARTED = object()
