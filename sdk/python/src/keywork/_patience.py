"""How long a submit, which is safe to repeat, is repeated. Waits for nothing itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from keywork._backoff import Backoff

if TYPE_CHECKING:
    from keywork._connection import Channels
    from keywork.errors import CallError


class Patience:
    """Tells how long to wait before the next try, or hands the error back."""

    def __init__(self, channels: Channels, deadline: float) -> None:
        self._channels = channels
        #: The server in use when the try began: the one to turn away from.
        self._place = channels.place
        #: On the monotonic clock.
        self.deadline = deadline
        self._backoff = Backoff()
        #: Some try may have had an effect.
        self._doubt = False

    def renew(self, deadline: float) -> None:
        """Something was answered: count from here again."""
        self.deadline = deadline
        self._backoff.reset()

    def begin(self) -> None:
        """A try begins."""
        self._place = self._channels.place

    def after(self, error: CallError) -> float:
        """The wait before the next try, at the next server; raises where another is no use or comes too late."""
        self._doubt = self._doubt or not error.has_no_side_effects()
        pause = max(self._backoff.next(), error.retry_after or 0.0)
        if not error._is_outage() or time.monotonic() + pause >= self.deadline:
            raise error._with_doubt(self._doubt)
        self._channels.warn_of_outage(self._place, error)
        self._channels.turn_away(self._place)
        return pause
