"""How a worker stops: who may ask for it, and in which steps it happens."""

from __future__ import annotations

from enum import IntEnum

#: How long releases and the last settlements may take to be confirmed.
FLUSH_WITHIN = 2.0


class Order(IntEnum):
    """What was asked of a worker; it only grows."""

    WORK = 0
    DRAIN = 1
    RELEASE_ALL = 2


class Stop(IntEnum):
    """Where a worker is on its way to the end."""

    #: Not stopping.
    NO = 0
    #: Handlers run to their end until the grace is over; no job is started.
    DRAINING = 1
    #: Handlers were told to stop, and may end by themselves for a moment.
    CANCELLING = 2
    #: Handlers are to be gone; what they held is released.
    RELEASING = 3
