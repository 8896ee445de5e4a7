"""What a fake server does wrong on purpose, and what it has seen."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keywork.leases import SettledOutcome
    from keywork.testing._status import Status
    from keywork.v1 import work_queue_pb2 as pb


class SubmitFault(Enum):
    """What goes wrong with one submit."""

    #: Nothing is stored, and it says so.
    UNAVAILABLE = auto()
    #: The job is stored, and the answer says that it may not be.
    ANSWER_LOST = auto()
    #: The job is stored and the stream, or the call, breaks.
    BROKEN = auto()


@dataclass
class Script:
    """What a `FakeServer` does wrong. By default: nothing."""

    #: So many of the next sessions are opened and never welcomed.
    unwelcome_sessions: int = 0
    #: The next sessions are refused with these.
    refuse_sessions: deque[Status] = field(default_factory=deque)
    #: Heartbeats are read, extend nothing and are not answered.
    ignore_heartbeats: bool = False
    #: Heartbeats extend nothing, and the answer says that nothing could be confirmed.
    unconfirmed_heartbeats: bool = False
    #: Nothing is sent to any session.
    silent: bool = False
    #: So many of the next settlements take effect and are not answered.
    unanswered_settlements: int = 0
    #: The next settlements have no effect and are answered with these.
    settlement_answers: deque[SettledOutcome] = field(default_factory=deque)
    #: The next submits, alone or on a stream, meet these; a `Status` refuses.
    submit_faults: deque[SubmitFault | Status] = field(default_factory=deque)


@dataclass
class SeenSettlement:
    """One settlement that a fake server was sent."""

    #: The key, as long as the server knows the lease.
    key: str
    #: ``complete``, ``retry``, ``release``, ``fail`` or ``rerun``.
    outcome: str
    #: The error or reason that came with it.
    error: str
    #: What was, or would have been, answered.
    answer: SettledOutcome


@dataclass
class Seen:
    """What a `FakeServer` has seen, in order."""

    #: Hellos of sessions.
    hellos: list[pb.Hello] = field(default_factory=list)
    #: The headers that came with each of them.
    headers: list[dict[str, str | bytes]] = field(default_factory=list)
    #: Sessions that are open now.
    sessions: int = 0
    #: How many heartbeats came.
    heartbeats: int = 0
    #: The newest capacity that a session was set to.
    capacity: int | None = None
    #: Settlements, also those without effect.
    settlements: list[SeenSettlement] = field(default_factory=list)
    #: How many messages they came in.
    settlement_messages: int = 0
    #: Keys that were delivered.
    delivered: list[str] = field(default_factory=list)
    #: How many sessions asked for no more deliveries.
    drains: int = 0
    #: The ``request_id``s of submits, each as often as it came.
    submits: list[str] = field(default_factory=list)
    #: How many leases ran out.
    expired: int = 0

    def settled(self, how: str) -> list[str]:
        """The keys that were settled in this way (``complete``, ``retry``, …), where it counted."""
        return [s.key for s in self.settlements if s.outcome == how and s.answer.name == "SETTLED"]
