"""Times and durations, to and from the wire."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, TypeAlias

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

if TYPE_CHECKING:
    from google.protobuf.message import Message

#: A length of time, as callers give it: seconds, or a ``timedelta``.
Seconds: TypeAlias = float | timedelta

#: The longest that a duration of the wire may be, in seconds.
LONGEST = 315_576_000_000


def seconds(value: Seconds) -> float:
    """A caller's length of time in seconds."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    number: object = value
    if isinstance(number, str):  # Which float() would read.
        raise TypeError(f"must be seconds or a timedelta, and is {value!r}")
    return float(value)


def to_duration(value: Seconds) -> Duration:
    """A caller's length of time for the wire."""
    micros = round(seconds(value) * 1_000_000)
    if abs(micros) > LONGEST * 1_000_000:
        raise ValueError(f"must be at most {LONGEST:,} seconds, and is {value!r}")
    whole, rest = divmod(abs(micros), 1_000_000)
    sign = -1 if micros < 0 else 1
    return Duration(seconds=sign * whole, nanos=sign * rest * 1_000)


def to_timestamp(value: datetime) -> Timestamp:
    """A time for the wire. One without a time zone is local, as everywhere in Python."""
    if not isinstance(value, datetime):
        raise TypeError(f"must be a datetime, and is {value!r}")
    stamp = Timestamp()
    stamp.FromDatetime(value.astimezone(timezone.utc))
    return stamp


def to_payload(value: bytes | str) -> bytes:
    """A payload for the wire: text as UTF-8."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"must be bytes or str, and is a {type(value).__name__}; for JSON: json.dumps(…)")


def from_duration(value: Duration) -> float:
    """A duration of the wire in seconds; a negative one, which no server sends, counts as zero."""
    return max(0.0, value.seconds + value.nanos / 1e9)


def delta(message: Message, field: str) -> timedelta | None:
    """A duration field, where it is set."""
    if not message.HasField(field):
        return None
    return timedelta(seconds=from_duration(getattr(message, field)))


def time(message: Message, field: str) -> datetime | None:
    """A time field, where it is set."""
    if not message.HasField(field):
        return None
    stamp: Timestamp = getattr(message, field)
    try:
        return stamp.ToDatetime(timezone.utc)
    except ValueError:  # Beyond what a datetime can hold.
        return None
