"""What a caller chose, checked: an error names the option, its limit, and what was given."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keywork._wire import Seconds

MOST_HANDLERS = 100_000
MOST_WEIGHT = 100
WORKER_ID_BYTES = 256
#: The longest time that an option may have: clocks and gRPC cannot count without end.
YEAR = 366 * 86_400.0

_HEADER_NAME = re.compile(r"[0-9a-z_.-]+")


def whole(name: str, given: Any, least: int, most: int) -> int:
    """A whole number within bounds."""
    text = f"{name} must be a whole number from {least:,} to {most:,}, and is {given!r}"
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(text)
    if not least <= given <= most:
        raise ValueError(text)
    return given


def positive(name: str, given: Seconds) -> float:
    """A length of time that is more than none."""
    value = _seconds(name, given)
    if not 0 < value <= YEAR:
        raise ValueError(f"{name} must be more than 0 seconds and at most a year, and is {given!r}")
    return value


def not_negative(name: str, given: Seconds) -> float:
    """A length of time, or none."""
    value = _seconds(name, given)
    if not 0 <= value <= YEAR:
        raise ValueError(f"{name} must be from 0 seconds to a year, and is {given!r}")
    return value


def _seconds(name: str, given: Any) -> float:
    if isinstance(given, timedelta):
        return given.total_seconds()
    if not isinstance(given, (int, float)) or isinstance(given, bool):
        raise TypeError(f"{name} must be seconds or a timedelta, and is {given!r}")
    return float(given)


def weights(queues: Sequence[str] | Mapping[str, int] | str) -> dict[str, int]:
    """The queues of a worker with their weights."""
    if isinstance(queues, Mapping):
        found = {
            name: whole(f"the weight of queue {name!r}", weight, 1, MOST_WEIGHT) for name, weight in queues.items()
        }
    else:
        names = [queues] if isinstance(queues, str) else list(queues)
        found = dict.fromkeys(names, 1)
        twice = [name for name in found if names.count(name) > 1]
        if twice:
            raise ValueError(f"queues must name each queue once, and has {twice[0]!r} {names.count(twice[0])} times")
    if not found:
        raise ValueError(f"queues must name at least one queue, and is {queues!r}")
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"queues must be names, and has {name!r}")
        _encodable("queues", name)
    return found


def worker_id(given: str) -> str:
    """A worker's own name."""
    limit = f"worker_id must have 1 to {WORKER_ID_BYTES} bytes and no control characters, and is {given!r}"
    if not isinstance(given, str):
        raise TypeError(limit)
    size = len(_encodable("worker_id", given))
    if not 1 <= size <= WORKER_ID_BYTES or any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in given):
        raise ValueError(limit)
    return given


def metadata(given: Mapping[str, str] | Sequence[tuple[str, str]]) -> tuple[tuple[str, str | bytes], ...]:
    """Headers. What is wrong with a value is told without the value, which may be a secret."""
    pairs = given.items() if isinstance(given, Mapping) else given
    return tuple((name.lower(), _header_value(name, value)) for name, value in pairs)


def _header_value(name: str, value: Any) -> str | bytes:
    if not _HEADER_NAME.fullmatch(name.lower()):
        raise ValueError(f"metadata: a name must have letters, digits, '-', '_' and '.' only, and is {name!r}")
    if name.lower().endswith("-bin"):
        if not isinstance(value, bytes):
            raise TypeError(f"metadata: the value of {name!r} must be bytes, and is a {type(value).__name__}")
        return value
    if not isinstance(value, str):
        raise TypeError(f"metadata: the value of {name!r} must be a str, and is a {type(value).__name__}")
    if (strange := re.search(r"[^ -~]", value)) is not None:
        place = f"{strange[0]!r} at {strange.start()}"
        raise ValueError(f"metadata: the value of {name!r} must be printable ASCII, and has {place}")
    return value


def function(name: str, given: Any, example: tuple[str, ...]) -> Any:
    """Something that can be called with arguments such as these."""
    if not callable(given):
        raise TypeError(f"{name} must be a function, and is {given!r}")
    try:
        signature = inspect.signature(given)
    except (TypeError, ValueError):  # It has none, as some that are written in C.
        return given
    try:
        signature.bind(*example)
    except TypeError:
        wanted = ", ".join(example)
        raise TypeError(f"{name} must take ({wanted}), and takes {signature}") from None
    return given


def functions(name: str, given: Sequence[Any], example: tuple[str, ...]) -> list[Any]:
    """Several of them."""
    if callable(given) or isinstance(given, str):
        raise TypeError(f"{name} must be a list of functions, and is {given!r}")
    return [function(f"each of {name}", one, example) for one in given]


def listener(given: Callable[..., Any] | None) -> Any:
    """An ``on_event``."""
    if given is not None and inspect.iscoroutinefunction(given):
        raise TypeError(f"on_event must be a plain function, since it is called on a thread, and is {given!r}")
    return None if given is None else function("on_event", given, ("event",))


def _encodable(name: str, given: str) -> bytes:
    try:
        return given.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} must be text that UTF-8 can hold, and is {given!r}") from None
