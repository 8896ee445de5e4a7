"""Where it is logged, and how often it is that servers are away."""

from __future__ import annotations

import logging

log = logging.getLogger("keywork")

#: While an outage lasts, it is told of again after this many seconds.
AGAIN = 30.0


class Outage:
    """An outage, which is warned of at once and then seldom. Pure: time is an argument."""

    def __init__(self) -> None:
        self._warned: float | None = None

    @property
    def is_known(self) -> bool:
        """It was warned of."""
        return self._warned is not None

    def is_to_be_warned_of(self, now: float) -> bool:
        """It is time to; then whoever asks does so."""
        due = self._warned is None or now - self._warned >= AGAIN
        if due:
            self._warned = now
        return due

    def is_over(self) -> None:
        """The next one is warned of at once."""
        self._warned = None
