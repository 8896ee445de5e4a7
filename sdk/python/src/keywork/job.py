"""Jobs as a client and a handler see them: plain data, read from the wire."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from grpc import StatusCode

from keywork import _wire, errors
from keywork.v1 import work_queue_pb2 as pb

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from keywork.v1 import job_pb2


class JobState(Enum):
    """Where a job is in its life."""

    #: The server did not say, or said something that this version does not know.
    UNKNOWN = 0
    #: Accepted; not to start before a time that is still to come.
    SCHEDULED = 1
    #: Waiting for a worker.
    QUEUED = 2
    #: A worker holds a lease of it.
    LEASED = 3
    #: An attempt failed; the next one waits for its time.
    RETRYING = 4
    #: Used up its attempts or was failed.
    DEAD = 5
    #: Ended; nothing of it is outstanding.
    ENDED = 6


class DeadReason(Enum):
    """Why a job became a dead letter."""

    #: The server did not say, or said something that this version does not know.
    UNKNOWN = 0
    #: Its last allowed attempt failed.
    ATTEMPTS_EXHAUSTED = 1
    #: Its last allowed attempt ended because the lease ran out.
    LEASE_EXPIRED = 2
    #: A handler failed it for good.
    FAILED = 3
    #: It had not started when its ``expires_at`` came.
    EXPIRED = 4
    #: What is stored could not be read as a job.
    UNREADABLE = 5


_STATES = {state.value: state for state in JobState}
_DEAD_REASONS = {reason.value: reason for reason in DeadReason}


@dataclass(slots=True)
class Job:
    """One job."""

    #: The job's id: the ``request_id`` of its submit where one was given.
    id: str = ""
    #: The queue's name.
    queue: str = ""
    #: What the job is about: at most one job of a key is outstanding in a queue.
    key: str = ""
    #: The payload. Empty where a job is only named, as in a submit's outcome. `repr` leaves it out.
    payload: bytes = field(default=b"", repr=False)
    #: Media type of the payload, as given by the submitter.
    content_type: str = ""
    #: The submitter's attributes.
    attributes: dict[str, str] = field(default_factory=dict)
    #: Where the job was in its life when the server answered.
    state: JobState = JobState.UNKNOWN
    #: The attempt that runs, or that comes next: the first is 1.
    attempt: int = 0
    #: How many attempts it has before it becomes a dead letter.
    max_attempts: int = 0
    #: When it was accepted.
    submitted_at: datetime | None = None
    #: Not to start before this time.
    start_at: datetime | None = None
    #: Becomes a dead letter when it has not started by then.
    expires_at: datetime | None = None
    #: What the last failed attempt said.
    last_error: str = ""
    #: The worker that holds the lease, where the server knows it.
    holder: str = ""
    #: Until when the lease holds unless it is extended, by the server's clock. A handler asks its `Context`.
    lease_deadline: datetime | None = None
    #: Grows with every lease of the key: pass it to what the handler writes to. 0: not leased.
    fencing_number: int = 0
    #: How long ago it was accepted, by the server's clock.
    age: timedelta | None = None


def read_job(wire: job_pb2.Job) -> Job:
    """A job of the wire."""
    return Job(
        id=wire.id,
        queue=wire.queue,
        key=wire.key,
        payload=wire.payload,
        content_type=wire.content_type,
        attributes=dict(wire.attributes),
        state=_STATES.get(wire.state, JobState.UNKNOWN),
        attempt=wire.attempt,
        max_attempts=wire.max_attempts,
        submitted_at=_wire.time(wire, "submitted_at"),
        start_at=_wire.time(wire, "start_at"),
        expires_at=_wire.time(wire, "expires_at"),
        last_error=wire.last_error,
        holder=wire.holder,
        lease_deadline=_wire.time(wire, "lease_deadline"),
        fencing_number=wire.fencing_number,
        age=_wire.delta(wire, "age"),
    )


def read_delivered(wire: pb.Delivery) -> Job:
    """The job of a delivery, with what its lease says."""
    job = read_job(wire.job)
    job.attempt = wire.attempt
    job.fencing_number = wire.fencing_number
    return job


@dataclass(slots=True)
class DeadJob:
    """A job that ended as a dead letter."""

    #: Names the dead letter within its queue.
    dead_id: int
    #: The job, with payload and attributes.
    job: Job
    #: Why it died.
    reason: DeadReason
    #: When it died.
    died_at: datetime | None


def read_dead(wire: job_pb2.DeadJob) -> DeadJob:
    """A dead letter of the wire."""
    reason = _DEAD_REASONS.get(wire.reason, DeadReason.UNKNOWN)
    return DeadJob(wire.dead_id, read_job(wire.job), reason, _wire.time(wire, "died_at"))


class SubmitOutcome(Enum):
    """How a submit ended."""

    #: The job was accepted and holds the key.
    CREATED = 1
    #: This ``request_id`` was accepted before: `Submitted.job` is that job, outstanding or ended.
    DUPLICATE = 2
    #: The key is busy with `Submitted.job`; nothing was stored.
    ALREADY_OUTSTANDING = 3
    #: The key will run once more with this payload after `Submitted.job`.
    RERUN_SCHEDULED = 4
    #: The job took the place of one that had not started.
    REPLACED = 5


_OUTCOMES = {outcome.value: outcome for outcome in SubmitOutcome}


@dataclass(slots=True)
class Submitted:
    """The answer to a submit."""

    #: How it ended.
    outcome: SubmitOutcome
    #: The job that holds the key, or, for a duplicate, the one accepted before.
    job: Job

    @property
    def accepted(self) -> bool:
        """True: what was offered was accepted, now or at an earlier try. False: the key is busy."""
        return self.outcome is not SubmitOutcome.ALREADY_OUTSTANDING


def read_submitted(wire: pb.SubmitResponse, own_id: bool) -> Submitted:
    """An answer to a submit.

    `own_id` says that this package made the request id: then a duplicate can only be an earlier try of the same
    call, whose answer was lost.
    """
    outcome = _OUTCOMES.get(wire.outcome)
    if outcome is None:
        raise errors.make(StatusCode.INTERNAL, "the server answered with an outcome that this version does not know")
    if outcome is SubmitOutcome.DUPLICATE and own_id:
        outcome = SubmitOutcome.CREATED
    return Submitted(outcome, read_job(wire.job))


def read_result(wire: pb.SubmitResult | None, own_id: bool) -> Submitted | errors.CallError:
    """The answer to one item of many."""
    if wire is not None and wire.WhichOneof("result") == "error":
        return errors.of_item(wire.error)
    try:
        return read_submitted(wire.response if wire is not None else pb.SubmitResponse(), own_id)
    except errors.CallError as error:
        return error
