"""Leases without a stream: what `Client.pull`, `Client.heartbeat` and `Client.ack` give and take.

For programs that run now and then. The caller keeps the deadlines; a `Worker` does that by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from keywork import _wire, errors
from keywork.job import Job, read_delivered
from keywork.outcomes import Complete, Outcome, outcome_to_wire

if TYPE_CHECKING:
    from datetime import timedelta

    from keywork.v1 import work_queue_pb2 as pb


class LostReason(Enum):
    """Why a lease was lost."""

    #: The server gave a reason that this version does not know.
    UNKNOWN = 0
    #: Its deadline passed, or the job ended or was given to another.
    EXPIRED = 1
    #: The job was cancelled, its queue purged or deleted.
    CANCELLED = 2
    #: A newer session of the same worker did not go on with it.
    SUPERSEDED = 3
    #: The token is malformed, forged or of another queue's making.
    INVALID = 4


class SettledOutcome(Enum):
    """What became of a settlement."""

    #: The server answered with an outcome that this version does not know.
    UNKNOWN = 0
    #: It counts. Where the job ended, its key is free.
    SETTLED = 1
    #: The job had ended already; most likely an earlier try of this settlement counted.
    ALREADY_SETTLED = 2
    #: The lease was lost before. Nothing was changed.
    LEASE_LOST = 3
    #: The server could not tell: send the same settlement again.
    TRY_AGAIN = 4
    #: The token is malformed or forged.
    INVALID_LEASE = 5
    #: The settlement breaks a limit, or is one that the server does not serve; see `Settled.error`.
    REJECTED = 6


_LOST = {reason.value: reason for reason in LostReason}
_SETTLED = {outcome.value: outcome for outcome in SettledOutcome}


def lost_reason(wire: int) -> LostReason:
    """The reason as the wire has it."""
    return _LOST.get(wire, LostReason.UNKNOWN)


@dataclass(slots=True)
class Leased:
    """A job with its lease."""

    #: Names the lease: opaque.
    token: bytes
    #: The job.
    job: Job
    #: Until the deadline, from when the server sent this. Count it from before the call.
    time_left: timedelta | None


@dataclass(slots=True)
class LeaseExtension:
    """What became of one lease that was to be extended."""

    #: The token to use from now on.
    token: bytes
    #: Until the new deadline, from when the server sent this. None: it was not extended.
    time_left: timedelta | None = None
    #: Why it is lost; None: it is not.
    lost: LostReason | None = None

    @property
    def extended(self) -> bool:
        """True: it holds for `time_left`. False and not `lost`: it is as before, try again."""
        return self.time_left is not None and self.lost is None


@dataclass(slots=True)
class Settled:
    """What became of a settlement."""

    #: What became of it.
    outcome: SettledOutcome
    #: For `SettledOutcome.REJECTED`: why.
    error: errors.CallError | None = None


def read_leased(wire: pb.Delivery) -> Leased:
    """A delivery of the wire."""
    return Leased(wire.lease_token, read_delivered(wire), _wire.delta(wire, "time_left"))


def read_extension(wire: pb.HeartbeatResult) -> LeaseExtension:
    """The answer to one token of a heartbeat."""
    if wire.lost:
        return LeaseExtension(wire.lease_token, lost=lost_reason(wire.lost))
    left = None if wire.try_again else _wire.delta(wire, "time_left")
    return LeaseExtension(wire.lease_token, left)


def read_settled(wire: pb.SettlementResult) -> Settled:
    """The answer to one settlement."""
    outcome = _SETTLED.get(wire.outcome, SettledOutcome.UNKNOWN)
    error = errors.of_item(wire.error) if wire.HasField("error") else None
    return Settled(outcome, error)


def to_settlement(token: bytes, outcome: Outcome | None) -> pb.Settlement:
    """One settlement for the wire; None completes, as a handler that returns nothing does."""
    return outcome_to_wire(token, outcome if outcome is not None else Complete())
