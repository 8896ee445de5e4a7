"""What a worker tells of itself while it runs, by its ``on_event``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keywork.errors import WorkerError
    from keywork.leases import LostReason, SettledOutcome


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a worker's owner may want to log, count or alarm on."""


@dataclass(frozen=True, slots=True)
class Connecting(Event):
    """It is about to connect to this server."""

    #: The server's URI.
    endpoint: str


@dataclass(frozen=True, slots=True)
class Ready(Event):
    """Its session is open: it is served."""

    #: The server's URI.
    endpoint: str


@dataclass(frozen=True, slots=True)
class Degraded(Event):
    """Its session broke; running handlers go on while their leases hold, and it reconnects."""

    #: Why, for people.
    error: str
    #: The server's URI.
    endpoint: str


@dataclass(frozen=True, slots=True)
class Draining(Event):
    """It takes no more jobs and finishes what runs."""


@dataclass(frozen=True, slots=True)
class Stopped(Event):
    """It has stopped."""

    #: Handlers that were still running and were left behind.
    abandoned: int
    #: Results of handlers that no server has confirmed: their jobs run again when their leases are over, unless the
    #: result came through after all.
    unconfirmed: int = 0


@dataclass(frozen=True, slots=True)
class LeaseLost(Event):
    """A lease was lost before it was settled; what the handler returns counts for nothing."""

    #: The job's queue.
    queue: str
    #: The job's key.
    key: str
    #: The lease's fencing number.
    fencing_number: int
    #: Why: None where the worker itself could no longer be sure of it.
    reason: LostReason | None


@dataclass(frozen=True, slots=True)
class Settled(Event):
    """A settlement was answered: the lease is over, and nothing more will be heard of it."""

    #: The job's queue.
    queue: str
    #: The job's key.
    key: str
    #: The job's id.
    job_id: str
    #: The lease's fencing number.
    fencing_number: int
    #: What the server said: `SETTLED`, `ALREADY_SETTLED` or `LEASE_LOST`.
    outcome: SettledOutcome


@dataclass(frozen=True, slots=True)
class HandlerIgnoresCancellation(Event):
    """A handler still runs although it was cancelled a while ago. It keeps its slot."""

    #: The job's queue.
    queue: str
    #: The job's key.
    key: str
    #: Since how many seconds it is cancelled.
    cancelled_for: float


@dataclass(frozen=True, slots=True)
class SettlementRejected(Event):
    """A settlement was refused; the job is tried again instead."""

    #: The job's queue.
    queue: str
    #: The job's key.
    key: str
    #: Why, for people.
    error: str


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """It ends with an error."""

    #: The error, as `run` raises it.
    error: WorkerError


@dataclass(slots=True)
class Counts:
    """What a worker has done since it was made."""

    #: Handlers started.
    started: int = 0
    #: Leases whose settlement was confirmed.
    settled: int = 0
    #: Leases lost before they were settled.
    leases_lost: int = 0
    #: Results of handlers that came after their lease was lost, and were dropped.
    dropped_results: int = 0
    #: Sessions that were opened.
    sessions: int = 0
