"""Requests, written field by field.

What cannot be written is refused as a server would refuse it, with the field's name, and before anything is sent. A
value of the wrong type is a mistake of the program: a TypeError, which names the field too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from keywork import _wire, errors

if TYPE_CHECKING:
    from datetime import datetime

    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.timestamp_pb2 import Timestamp

    from keywork._wire import Seconds

T = TypeVar("T")


def message(kind: type[T], *, within: str = "", **fields: Any) -> T:
    """A message of these fields; `within` is the path of the message in its request."""
    try:
        return kind(**fields)
    except (TypeError, ValueError):
        for name, value in fields.items():
            convert(within + name, partial(_alone, kind, name), value)
        raise


def _alone(kind: Callable[..., T], name: str, value: Any) -> T:
    return kind(**{name: value})


def duration(field: str, value: Seconds) -> Duration:
    """A length of time."""
    return convert(field, _wire.to_duration, value)


def timestamp(field: str, value: datetime) -> Timestamp:
    """A time."""
    return convert(field, _wire.to_timestamp, value)


def payload(field: str, value: bytes | str) -> bytes:
    """A payload."""
    return convert(field, _wire.to_payload, value)


def convert(field: str, how: Callable[[Any], T], value: Any) -> T:
    """What `how` makes of a field's value; its error names the field."""
    try:
        return how(value)
    except TypeError as error:
        raise TypeError(f"{field}: {error}") from None
    except (ValueError, OverflowError) as error:
        raise errors.bad_field(field, str(error)) from None
