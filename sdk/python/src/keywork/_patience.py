"""How long a submit, which is safe to repeat, is repeated. Waits for nothing itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from keywork import errors
from keywork._backoff import Backoff

if TYPE_CHECKING:
    from keywork._connection import Channels
    from keywork.errors import CallError


#: The last try is made so long before the deadline.
LAST_TRY = 0.05


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
        #: What the try before met.
        self._before: CallError | None = None

    def renew(self, deadline: float) -> None:
        """Something was answered: count from here again."""
        self.deadline = deadline
        self._backoff.reset()
        self._before = None

    def begin(self) -> None:
        """A try begins."""
        self._place = self._channels.place

    def after(self, error: CallError) -> float:
        """The wait before the next try, at the next server; raises where another is no use, or the last was made."""
        self._doubt = self._doubt or not error.has_no_side_effects()
        pause = pause_within(self.deadline, max(self._backoff.next(), error.retry_after or 0.0))
        if not error._is_outage() or pause is None:
            raise self._telling(error)._with_doubt(self._doubt)
        self._before = error
        self._channels.warn_of_outage(self._place, error)
        self._channels.turn_away(self._place)
        return pause

    def _telling(self, error: CallError) -> CallError:
        """The last try has little time: that it ran out of it tells less than what the one before met."""
        ran_out = error.code is errors.StatusCode.DEADLINE_EXCEEDED
        return self._before if ran_out and self._before is not None else error


def pause_within(deadline: float, pause: float) -> float | None:
    """The pause, cut so that a last try is made shortly before the deadline; None: that one was made."""
    left = deadline - LAST_TRY - time.monotonic()
    return min(pause, left) if left > 0 else None
