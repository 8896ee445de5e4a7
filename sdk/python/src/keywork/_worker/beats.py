"""Heartbeats on their way: what each listed, when it was sent, and what its answer proves. Pure."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keywork._worker.leases import Held

#: The most leases that one heartbeat lists, so that its message stays under the usual limit of 4 MiB.
LISTED = 8_000


class Beats:
    """The heartbeats of a session."""

    def __init__(self, now: float) -> None:
        self._sequence = 0
        self._unanswered: deque[tuple[int, float, list[Held]]] = deque()
        #: When the newest question was sent whose answer has arrived. What the server sends from now on was sent
        #: after that, so a time left that it tells counts from then at the earliest.
        self.basis = now

    def opened(self, hello_sent: float) -> None:
        """A session opened whose Hello was sent then."""
        self._unanswered.clear()
        self.basis = hello_sent

    def sent(self, leases: list[Held], now: float) -> int:
        """Notes a heartbeat that is being sent; gives its sequence."""
        self._sequence += 1
        self._unanswered.append((self._sequence, now, leases))
        return self._sequence

    def answered(self, sequence: int) -> Iterator[tuple[float, list[Held]]]:
        """The heartbeats that an answer to `sequence` answers: when each was sent, and what it listed."""
        while self._unanswered and self._unanswered[0][0] <= sequence:
            _, sent, leases = self._unanswered.popleft()
            self.basis = sent
            yield sent, leases
