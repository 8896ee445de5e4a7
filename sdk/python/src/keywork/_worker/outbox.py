"""Settlements to be sent: which lease, and when. What is to be sent lies with the lease itself. Pure."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from keywork._worker.leases import Phase
from keywork.outcomes import outcome_to_wire

if TYPE_CHECKING:
    from keywork._worker.leases import Held, Leases
    from keywork.v1 import work_queue_pb2 as pb

#: The most settlements of one message.
SETTLEMENTS = 1_000
#: How large a message may grow: well below the 4 MiB that servers usually take.
MESSAGE_BYTES = 1 << 20
#: The wait before a settlement is sent again that the server could not confirm.
PAUSE = 0.2


class Outbox:
    """The order of sending."""

    def __init__(self) -> None:
        self._ready: deque[Held] = deque()
        self._later: deque[tuple[float, Held]] = deque()

    def push(self, held: Held) -> None:
        """It is to be sent."""
        self._ready.append(held)

    def push_later(self, held: Held, now: float) -> None:
        """The server could not confirm it: it is to be sent again after a pause."""
        self._later.append((now + PAUSE, held))

    def refill(self, leases: Leases) -> None:
        """A session opened: everything unconfirmed is sent again."""
        self._later.clear()
        self._ready = deque(held for held in leases.held() if held.phase is Phase.SETTLING)

    def is_ready(self) -> bool:
        """Something is to be sent now."""
        return bool(self._ready)

    def wake(self) -> float | None:
        """When something is to be sent next that waits for its time."""
        return self._later[0][0] if self._later else None

    def on_time(self, now: float) -> None:
        """Makes what is due ready."""
        while self._later and self._later[0][0] <= now:
            self._ready.append(self._later.popleft()[1])

    def take(self) -> list[pb.Settlement]:
        """The next message: everything that is ready, as far as one message takes it."""
        settlements: list[pb.Settlement] = []
        size = 0
        while self._ready and len(settlements) < SETTLEMENTS and size < MESSAGE_BYTES:
            held = self._ready.popleft()
            if held.phase is Phase.SETTLING and held.outcome is not None:
                settlement = outcome_to_wire(held.token, held.outcome)
                size += settlement.ByteSize()
                settlements.append(settlement)
        return settlements
