"""Recurring submits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from keywork import _fields, _wire
from keywork.submit import Backoff, OnConflict, Submit, to_wire
from keywork.v1 import schedules_pb2 as pb

if TYPE_CHECKING:
    from datetime import datetime

    from keywork.v1 import work_queue_pb2


@dataclass(slots=True)
class Schedule:
    """One recurring submit."""

    #: The name.
    name: str
    #: ``@every 30s``, or six cron fields: second, minute, hour, day of month, month, day of week.
    expression: str
    #: What to submit each time.
    submit: Submit
    #: IANA time zone of a cron expression. Default: UTC.
    time_zone: str = ""
    #: When it fires next; the server says.
    next_at: datetime | None = None


def schedule_to_wire(schedule: Schedule) -> pb.Schedule:
    """A schedule for the wire."""
    return _fields.message(
        pb.Schedule,
        within="schedule.",
        name=schedule.name,
        expression=schedule.expression,
        time_zone=schedule.time_zone,
        submit=to_wire(schedule.submit),
    )


def read_schedule(wire: pb.Schedule) -> Schedule:
    """A schedule of the wire."""
    return Schedule(
        name=wire.name,
        expression=wire.expression,
        submit=_read_submit(wire.submit),
        time_zone=wire.time_zone,
        next_at=_wire.time(wire, "next_at"),
    )


def _read_submit(wire: work_queue_pb2.SubmitRequest) -> Submit:
    backoff = None
    if wire.HasField("backoff"):
        backoff = Backoff(_wire.from_duration(wire.backoff.initial), _wire.from_duration(wire.backoff.max))
    return Submit(
        queue=wire.queue,
        key=wire.key,
        payload=wire.payload,
        content_type=wire.content_type,
        attributes=dict(wire.attributes),
        request_id=wire.request_id,
        on_conflict=OnConflict(wire.on_conflict or OnConflict.REJECT.value),
        delay=_wire.delta(wire, "delay"),
        start_at=_wire.time(wire, "start_at"),
        expires_at=_wire.time(wire, "expires_at"),
        max_attempts=wire.max_attempts,
        backoff=backoff,
    )
