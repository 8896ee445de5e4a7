"""What the server says on the worker's stream, and what that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keywork import events, reasons
from keywork._backoff import around
from keywork._wire import from_duration
from keywork._worker.leases import DEFAULT_TERMS, Held, Phase, Terms, fence
from keywork._worker.stop import Stop
from keywork.context import CancelReason
from keywork.errors import (
    CallError,
    StatusCode,
    WorkerRefusedError,
    WorkerSupersededError,
    of_item,
    unanswered,
)
from keywork.job import read_delivered
from keywork.leases import LostReason, SettledOutcome, lost_reason
from keywork.outcomes import Retry
from keywork.v1 import work_queue_pb2 as pb

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterable

    from keywork._backoff import Backoff
    from keywork._worker.beats import Beats
    from keywork._worker.leases import Leases
    from keywork._worker.link import Link
    from keywork._worker.outbox import Outbox
    from keywork._worker.shared import Shared
    from keywork.errors import WorkerError

FAR = 86_400.0
#: The server refuses what this worker asks for, and would again.
_FINAL = frozenset(
    {
        StatusCode.INVALID_ARGUMENT,
        StatusCode.UNAUTHENTICATED,
        StatusCode.PERMISSION_DENIED,
        StatusCode.NOT_FOUND,
        StatusCode.UNIMPLEMENTED,
    },
)


class Session:
    """What is known of the session that is open, or was last."""

    def __init__(self, now: float) -> None:
        #: The server has said Welcome, and the stream has not ended since.
        self.live = False
        self.hello_sent = now
        #: When the stream of the last live session broke.
        self.broke: float | None = None
        self.ticket = b""
        self.heartbeat_interval = FAR
        self.liveness = FAR
        self.next_heartbeat = now + FAR
        #: The capacity that the server was last told.
        self.capacity = 0
        self.drain_sent = False
        self.drain_acknowledged = False
        #: The server wants us gone: when to reconnect.
        self.move_at: float | None = None


class Receiving:
    """The part of the driver that is told things by the server."""

    shared: Shared
    link: Link
    leases: Leases
    beats: Beats
    outbox: Outbox
    waiting: deque[Held]
    terms: dict[str, Terms]
    session: Session
    stop: Stop
    backoff: Backoff

    if TYPE_CHECKING:

        def sweep_by(self, fence: float) -> None: ...
        def give_back_waiting(self) -> None: ...
        def fail(self, error: WorkerError, now: float) -> None: ...
        def lose(self, held: Held, reason: CancelReason, why: LostReason | None, now: float) -> None: ...

    def on_message(self, message: pb.LeaseResponse, now: float) -> None:
        """The server said something."""
        if self.session.live:
            self.link.heard(now, self.session.liveness)
        kind = message.WhichOneof("message")
        if kind == "deliveries":
            self._on_deliveries(message.deliveries.deliveries)
        elif kind == "settlement_results":
            for result in message.settlement_results.results:
                self._on_result(result, now)
        elif kind == "heartbeat_ack":
            self._on_heartbeat_ack(message.heartbeat_ack, now)
        elif kind == "leases_lost":
            self._on_lost(message.leases_lost.leases, now)
        elif kind == "welcome":
            self._on_welcome(message.welcome, now)
        elif kind == "drain_ack":
            self.session.drain_acknowledged = True
        elif kind == "go_away":
            self._on_go_away(message.go_away, now)
        # Anything else is newer than this version.

    def _on_welcome(self, welcome: pb.Welcome, now: float) -> None:
        self.terms = {terms.queue: _terms(terms) for terms in welcome.queues}
        shortest = min((terms.lease_duration for terms in self.terms.values()), default=DEFAULT_TERMS.lease_duration)
        self.session.heartbeat_interval = from_duration(welcome.heartbeat_interval) or shortest / 3
        self.session.liveness = from_duration(welcome.liveness_timeout) or self.session.heartbeat_interval * 2.5
        self.link.heard(now, self.session.liveness)
        self._remember_ticket(welcome.session_ticket)
        if not self.session.live:
            self._on_opened(now)
        for held in self.leases.held():
            held.terms = self.terms.get(held.job.queue, DEFAULT_TERMS)
        for resumed in welcome.resumed:
            if (claimed := self.leases.find(resumed.lease_token)) is not None:
                claimed.extend(self.session.hello_sent, from_duration(resumed.time_left))
        self._on_lost(welcome.lost, now)
        self.outbox.refill(self.leases)

    def _on_opened(self, now: float) -> None:
        session = self.session
        session.live = True
        session.broke = None
        session.move_at = None
        session.drain_sent = session.drain_acknowledged = False
        # What it holds was extended last through an earlier session, and may have little time left.
        session.next_heartbeat = now + (session.heartbeat_interval if self.leases.is_empty() else 0.0)
        self.beats.opened(session.hello_sent)
        self.shared.healthy = True
        self.shared.counts.sessions += 1
        self.shared.tell(events.Ready(self.link.endpoint))

    def _on_deliveries(self, deliveries: Iterable[pb.Delivery]) -> None:
        for delivery in deliveries:
            job = read_delivered(delivery)
            terms = self.terms.get(job.queue, DEFAULT_TERMS)
            until = fence(self.beats.basis, from_duration(delivery.time_left), terms.margin)
            self.waiting.append(self.leases.insert(delivery.lease_token, job, terms, until))
            self.sweep_by(until)
        if self.stop is not Stop.NO:
            self.give_back_waiting()

    def _on_heartbeat_ack(self, ack: pb.HeartbeatAck, now: float) -> None:
        self.backoff.reset()
        self._remember_ticket(ack.session_ticket)
        self._on_lost(ack.lost, now)
        # The unconfirmed ones are as before: JetStream did not answer for them.
        unconfirmed = set(ack.unconfirmed)
        for sent, listed in self.beats.answered(ack.sequence):
            for held in listed:
                if held.token not in unconfirmed:
                    held.extend(sent, held.terms.lease_duration)

    def _remember_ticket(self, ticket: bytes) -> None:
        self.session.ticket = ticket or self.session.ticket

    def _on_lost(self, lost: Iterable[pb.LostLease], now: float) -> None:
        for lease in lost:
            if (held := self.leases.find(lease.lease_token)) is not None:
                why = lost_reason(lease.reason)
                cancelled = why is LostReason.CANCELLED
                self.lose(held, CancelReason.JOB_CANCELLED if cancelled else CancelReason.LEASE_LOST, why, now)

    def _on_result(self, result: pb.SettlementResult, now: float) -> None:
        held = self.leases.find(result.lease_token)
        if held is None or held.phase is not Phase.SETTLING:
            return
        outcome = result.outcome
        if outcome in (pb.SETTLEMENT_OUTCOME_SETTLED, pb.SETTLEMENT_OUTCOME_ALREADY_SETTLED):
            self.leases.settled(held)
            self.shared.counts.settled += 1
            self.shared.tell_settled(held, SettledOutcome(outcome))
        elif outcome in (pb.SETTLEMENT_OUTCOME_LEASE_LOST, pb.SETTLEMENT_OUTCOME_INVALID_LEASE):
            self._on_settled_too_late(held, outcome == pb.SETTLEMENT_OUTCOME_INVALID_LEASE)
        elif outcome == pb.SETTLEMENT_OUTCOME_REJECTED:
            self._on_rejected(held, result.error)
        else:
            self.outbox.push_later(held, now)

    def _on_settled_too_late(self, held: Held, invalid: bool) -> None:
        self.leases.settled(held)
        self.shared.counts.leases_lost += 1
        self.shared.counts.dropped_results += 1
        job = held.job
        why = LostReason.INVALID if invalid else LostReason.EXPIRED
        self.shared.tell(events.LeaseLost(job.queue, job.key, job.fencing_number, why))
        self.shared.tell_settled(held, SettledOutcome.LEASE_LOST)

    def _on_rejected(self, held: Held, error: pb.ItemError) -> None:
        """The lease is as before: the job is tried again after its backoff, with the reason as its error.

        When that is refused too, the lease is left to run out.
        """
        text = str(of_item(error))
        self.shared.tell(events.SettlementRejected(held.job.queue, held.job.key, text))
        if isinstance(held.outcome, Retry) and held.outcome.delay is None:
            self.leases.settled(held)
            return
        held.outcome = Retry(because=f"the server refused the settlement: {text}")
        self.outbox.push(held)

    def _on_go_away(self, away: pb.GoAway, now: float) -> None:
        if away.reason == pb.GO_AWAY_REASON_SUPERSEDED:
            self.fail(WorkerSupersededError(), now)
        else:
            self.session.move_at = now + around(from_duration(away.reconnect_delay))

    def move_on(self, now: float) -> None:
        """Leaves a server that wants us gone for the next one."""
        self.session.move_at = None
        self._break_off("the server asked us to reconnect", now)
        self.link.down(now)

    def on_silence(self, now: float) -> None:
        """The server has said nothing for too long."""
        what = "fell silent" if self.session.live else "did not say Welcome in time"
        self.on_end(unanswered(f"the server {what}"), now)

    def on_end(self, error: CallError | None, now: float) -> None:
        """The stream ended, or could not be opened.

        Unasked, whatever its status: reconnect. Only a refusal of what we ask for ends the worker.
        """
        # The GoAway before it may not have arrived.
        if error is not None and error.reason == reasons.SESSION_SUPERSEDED:
            self.fail(WorkerSupersededError(), now)
            return
        if error is not None and error.code in _FINAL:
            self.fail(WorkerRefusedError(error), now)
            return
        self._break_off(str(error) if error is not None else "the server ended the stream", now)
        pause = self.backoff.next()
        move_at, self.session.move_at = self.session.move_at, None
        self.link.down(now + pause if move_at is None else max(move_at, now))

    def _break_off(self, error: str, now: float) -> None:
        self.shared.healthy = False
        if self.session.live:
            self.session.live = False
            self.session.broke = now
            # Where there is a grace, fences have come nearer.
            self.sweep_by(now)
        self.shared.tell(events.Degraded(error, self.link.endpoint))


def _terms(wire: pb.QueueTerms) -> Terms:
    duration = from_duration(wire.lease_duration) or DEFAULT_TERMS.lease_duration
    return Terms(duration, from_duration(wire.disconnect_grace) or None)
