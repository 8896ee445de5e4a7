"""The leases that a worker holds, and until when it may act on each.

Pure: time is an argument, nothing here waits or sends. A lease's *fence* is when its handler must have been told to
stop; it only moves on an answer of the server, and counts from when the question was sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from keywork.context import CancelReason, Context

if TYPE_CHECKING:
    from collections.abc import Iterable

    from keywork.job import Job
    from keywork.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for the leases of one queue."""

    lease_duration: float
    disconnect_grace: float | None = None

    @property
    def margin(self) -> float:
        """How long before the server's deadline a handler is stopped: it needs time to notice."""
        return min(max(self.lease_duration / 10, 0.1), 1.0)


#: What is taken where a server does not say.
DEFAULT_TERMS = Terms(15.0)


class Phase(Enum):
    """Where a lease is between its delivery and the end of it here."""

    #: Delivered; no slot was free yet.
    WAITING = auto()
    #: Its handler runs.
    RUNNING = auto()
    #: Its handler has ended; the server has not confirmed the settlement.
    SETTLING = auto()
    #: The lease is lost and the handler still runs, in its slot.
    LOST = auto()
    #: Nothing of it is left here.
    GONE = auto()


class Held:
    """One lease."""

    __slots__ = (
        "context",
        "fence",
        "handle",
        "job",
        "outcome",
        "phase",
        "reported",
        "since",
        "terms",
        "thread",
        "token",
    )

    def __init__(self, token: bytes, job: Job, terms: Terms, fence: float) -> None:
        self.token = token
        self.job = job
        self.terms = terms
        self.fence = fence
        self.context = Context(fence)
        self.phase = Phase.WAITING
        #: What is to be sent; set while it is settling.
        self.outcome: Outcome | None = None
        #: The runner's.
        self.handle: Any = None
        self.thread: Any = None
        #: When it was lost, and whether its handler was reported since.
        self.since = 0.0
        self.reported = False

    def extend(self, asked: float, left: float) -> None:
        """The server answered something that was sent at `asked`: the lease holds for `left` from then on at least."""
        later = fence(asked, left, self.terms.margin)
        if later > self.fence:
            self.fence = later
            self.context._deadline = later

    def fence_now(self, broke: float | None) -> float:
        """Until when it may be acted on. `broke` is when the stream did, if it is not live."""
        grace = self.terms.disconnect_grace
        if broke is None or grace is None:
            return self.fence
        return min(self.fence, broke + grace)


class Leases:
    """The table."""

    def __init__(self) -> None:
        self._by_token: dict[bytes, Held] = {}
        self._lost: set[Held] = set()
        #: Running or lost: what occupies a handler slot.
        self.occupied = 0

    def insert(self, token: bytes, job: Job, terms: Terms, fence: float) -> Held:
        """Adds a delivery that waits for a slot."""
        held = self._by_token[token] = Held(token, job, terms, fence)
        return held

    def find(self, token: bytes) -> Held | None:
        """The lease of a token, as long as it is not lost."""
        return self._by_token.get(token)

    def held(self) -> Iterable[Held]:
        """Every lease that is not lost."""
        return self._by_token.values()

    @property
    def occupied_by_lost(self) -> int:
        """How many handler slots are occupied by handlers that have lost their lease."""
        return len(self._lost)

    @property
    def unconfirmed(self) -> int:
        """How many handlers have ended whose settlement the server has not confirmed."""
        return sum(held.phase is Phase.SETTLING and held.handle is not None for held in self.held())

    def is_empty(self) -> bool:
        """Nothing is held, and no handler runs."""
        return not self._by_token and not self._lost

    def start(self, held: Held) -> bool:
        """Waiting → running."""
        if held.phase is not Phase.WAITING:
            return False
        held.phase = Phase.RUNNING
        self.occupied += 1
        return True

    def finish(self, held: Held, outcome: Outcome | None) -> bool:
        """The handler has ended. True: its outcome is to be sent. False: it is dropped."""
        if held.phase is Phase.RUNNING:
            held.phase, held.outcome = Phase.SETTLING, outcome
            self.occupied -= 1
            return True
        if held.phase is Phase.LOST:
            held.phase = Phase.GONE
            self.occupied -= 1
            self._lost.discard(held)
        return False

    def give_back(self, held: Held, outcome: Outcome) -> bool:
        """Waiting → settling: the job goes back without having been started."""
        if held.phase is not Phase.WAITING:
            return False
        held.phase, held.outcome = Phase.SETTLING, outcome
        return True

    def settled(self, held: Held) -> bool:
        """The server has confirmed a settlement, or has said that there is nothing to settle."""
        if held.phase is not Phase.SETTLING:
            return False
        held.phase = Phase.GONE
        self._by_token.pop(held.token, None)
        return True

    def lose(self, held: Held, reason: CancelReason, now: float) -> bool:
        """A lease is lost: its handler's context is cancelled.

        A settlement under way goes on, since the server's answer to it is the truth. True: something was lost.
        """
        if held.phase is Phase.WAITING:
            held.phase = Phase.GONE
        elif held.phase is Phase.RUNNING:
            held.phase, held.since = Phase.LOST, now
            held.context._cancel(reason)
            self._lost.add(held)
        else:
            return False
        self._by_token.pop(held.token, None)
        return True

    def fenced(self, broke: float | None, now: float) -> tuple[list[Held], float | None]:
        """The leases whose fence has come, and when the next one comes.

        Settlements under way have none: they can do no harm late.
        """
        due: list[Held] = []
        following: float | None = None
        for held in self._by_token.values():
            if held.phase is Phase.SETTLING:
                continue
            fence = held.fence_now(broke)
            if fence <= now:
                due.append(held)
            elif following is None or fence < following:
                following = fence
        return due, following

    def stubborn(self, patience: float, now: float) -> list[Held]:
        """Handlers that run on although their lease was lost `patience` ago, each told once."""
        found = [held for held in self._lost if not held.reported and now - held.since >= patience]
        for held in found:
            held.reported = True
        return found

    def running(self) -> list[Held]:
        """Every lease whose handler runs and has it still."""
        return [held for held in self._by_token.values() if held.phase is Phase.RUNNING]

    def occupants(self) -> list[Held]:
        """Every lease whose handler runs, lost or not."""
        return [*self.running(), *self._lost]


def fence(asked: float, left: float, margin: float) -> float:
    """When a handler is to be stopped: the deadline as far as it is known, less the margin."""
    return asked + max(0.0, left - margin)
