"""A job to offer."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from keywork import _fields, errors
from keywork.v1 import job_pb2
from keywork.v1 import work_queue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from keywork._wire import Seconds


class OnConflict(Enum):
    """What to do when the key has an outstanding job already."""

    #: Answer `SubmitOutcome.ALREADY_OUTSTANDING`.
    REJECT = 1
    #: Run the key once more after the current job, with the newest payload.
    RERUN = 2
    #: Take the place of a job that has not started.
    REPLACE = 3
    #: Raise `AlreadyExistsError`.
    FAIL = 4


@dataclass(frozen=True, slots=True)
class Backoff:
    """The waits between attempts."""

    #: The wait after the first attempt; it doubles for every further one.
    initial: Seconds
    #: The longest wait.
    max: Seconds


@dataclass(slots=True)
class Submit:
    """A job to offer, for `Client.submit_many` and its like."""

    #: The queue; made on first use, unless the server says otherwise.
    queue: str
    #: What the job is about: at most one job of a key is outstanding.
    key: str
    #: What the handler gets: at most the queue's limit, 512 KiB by default. Text is encoded as UTF-8.
    payload: bytes | str = b""
    #: Media type of the payload.
    content_type: str = ""
    #: At most 64, 16 KiB in all.
    attributes: Mapping[str, str] = field(default_factory=dict)
    #: Names this submit; it becomes the job's id, and offering it again finds the same job. By default the client
    #: makes one, and keeps it over its own retries.
    request_id: str | uuid.UUID = ""
    #: What to do when the key is busy.
    on_conflict: OnConflict = OnConflict.REJECT
    #: Start no sooner than this long from now; the key is taken at once. Not together with `start_at`.
    delay: Seconds | None = None
    #: Start no sooner than at this time; the key is taken at once.
    start_at: datetime | None = None
    #: Make it a dead letter when it has not started by then. Default: never.
    expires_at: datetime | None = None
    #: Attempts before it becomes a dead letter: 1 to 1,000. Default: the queue's.
    max_attempts: int = 0
    #: The waits between attempts. Default: the queue's.
    backoff: Backoff | None = None


class Offer:
    """A request that is ready to be sent, as often as it takes."""

    __slots__ = ("own_id", "request")

    def __init__(self, submit: Submit) -> None:
        self.request = to_wire(submit)
        #: This package made the id.
        self.own_id = not self.request.request_id
        if self.own_id:
            self.request.request_id = new_id()


def to_wire(submit: Submit) -> pb.SubmitRequest:
    """The request of a submit."""
    if submit.delay is not None and submit.start_at is not None:
        raise errors.bad_field("start_at", "must not be set together with delay")
    request = _fields.message(
        pb.SubmitRequest,
        queue=submit.queue,
        key=submit.key,
        payload=_fields.payload("payload", submit.payload),
        content_type=submit.content_type,
        attributes=submit.attributes,
        request_id=str(submit.request_id),
        max_attempts=submit.max_attempts,
    )
    if submit.on_conflict is not OnConflict.REJECT:
        request.on_conflict = _on_conflict(submit.on_conflict)
    _set_times(request, submit)
    return request


def _on_conflict(given: OnConflict) -> Any:
    if not isinstance(given, OnConflict):
        raise TypeError(f"on_conflict: must be an OnConflict, and is {given!r}")
    return given.value


def _set_times(request: pb.SubmitRequest, submit: Submit) -> None:
    if submit.delay is not None:
        request.delay.CopyFrom(_fields.duration("delay", submit.delay))
    if submit.start_at is not None:
        request.start_at.CopyFrom(_fields.timestamp("start_at", submit.start_at))
    if submit.expires_at is not None:
        request.expires_at.CopyFrom(_fields.timestamp("expires_at", submit.expires_at))
    if submit.backoff is not None:
        request.backoff.CopyFrom(backoff_to_wire(submit.backoff))


def backoff_to_wire(backoff: Backoff, within: str = "") -> job_pb2.Backoff:
    """The waits between attempts, for the wire."""
    return job_pb2.Backoff(
        initial=_fields.duration(f"{within}backoff.initial", backoff.initial),
        max=_fields.duration(f"{within}backoff.max", backoff.max),
    )


def new_id() -> str:
    """A UUID of version 7: ids that were made one after the other lie side by side where they are stored."""
    millis = time.time_ns() // 1_000_000
    bits = (millis << 80) | int.from_bytes(os.urandom(10), "big")
    bits = (bits & ~(0xF << 76)) | (0x7 << 76)
    bits = (bits & ~(0x3 << 62)) | (0x2 << 62)
    return str(uuid.UUID(int=bits))
