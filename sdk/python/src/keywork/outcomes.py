"""What a handler's end means for its job.

A handler that returns completes its job; any error means: try again after the job's backoff. `Retry`, `Fail`,
`Release` and `Rerun` say more. They may be raised or returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keywork import _wire
from keywork.context import CancelReason
from keywork.v1 import work_queue_pb2 as pb

if TYPE_CHECKING:
    from keywork._wire import Seconds

#: Longest error text that is sent; servers keep no more.
ERROR_BYTES = 2_048


class Outcome(Exception):  # noqa: N818 - it is raised like an error, and is none.
    """How a handler's run ended: one of the classes below."""

    #: The outcome's name in the contract.
    name = ""

    def _fields(self) -> tuple[Any, ...]:
        return ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((type(self), self._fields()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._fields()))})"

    __str__ = __repr__


class Complete(Outcome):
    """The job is done; its key is free."""

    name = "complete"


class Retry(Outcome):
    """Try again after a delay; without one, after the job's backoff."""

    name = "retry"
    delay: float | None = None
    because: str = ""
    #: False: the handler did not choose this, it failed with an ordinary error.
    chosen: bool = True

    def __init__(self, delay: Seconds | None = None, because: object = "") -> None:
        super().__init__(delay, because)
        #: The wait in seconds; None: the job's backoff.
        self.delay = None if delay is None else _delay(delay)
        #: What went wrong.
        self.because = cut(str(because))

    def _fields(self) -> tuple[Any, ...]:
        return (self.delay, self.because)


class Fail(Outcome):
    """Make the job a dead letter now: trying again would not help."""

    name = "fail"
    reason: str = ""

    def __init__(self, reason: object = "") -> None:
        super().__init__(reason)
        #: Why.
        self.reason = cut(str(reason))

    def _fields(self) -> tuple[Any, ...]:
        return (self.reason,)


class Release(Outcome):
    """Give the job back at once; costs no attempt."""

    name = "release"


class Rerun(Outcome):
    """The job is done, and its key is to run again."""

    name = "rerun"
    delay: float = 0.0
    payload: bytes | None = None

    def __init__(self, delay: Seconds = 0.0, payload: bytes | str | None = None) -> None:
        super().__init__(delay, payload)
        #: The wait before it, in seconds.
        self.delay = _delay(delay)
        #: The payload of the next job; None: the same.
        self.payload = None if payload is None else _wire.to_payload(payload)

    def _fields(self) -> tuple[Any, ...]:
        return (self.delay, self.payload)


def _delay(value: Seconds) -> float:
    try:
        seconds = _wire.seconds(value)
    except (TypeError, ValueError):
        raise TypeError(f"a delay must be seconds or a timedelta, and is {value!r}") from None
    if not 0 <= seconds <= _wire.LONGEST:
        raise ValueError(f"a delay must be from 0 to {_wire.LONGEST:,} seconds, and is {value!r}")
    return seconds


def of_error(error: BaseException) -> Outcome:
    """What a handler's error means."""
    return _sendable(error) if isinstance(error, Outcome) else _failed(error)


def of_result(result: object) -> Outcome:
    """What a handler's result means. Anything but an outcome is ignored, as a test's return value is."""
    if isinstance(result, Outcome):
        return _sendable(result)
    if isinstance(result, type) and issubclass(result, Outcome):
        return _made(result)
    return Complete()


def _made(kind: type[Outcome]) -> Outcome:
    try:
        return _sendable(kind())
    except Exception as error:  # noqa: BLE001 - a class of the program's own may need arguments.
        return _failed(error)


def _sendable(outcome: Outcome) -> Outcome:
    """The outcome; where it cannot be sent, as one of a class of the program's own may be, that is the job's error."""
    try:
        outcome_to_wire(b"", outcome)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the job's.
        return _failed(error)
    return outcome


def _failed(error: BaseException) -> Retry:
    retry = Retry(because=_with_causes(error))
    retry.chosen = False
    return retry


def settled_as(outcome: Outcome, reason: CancelReason | None) -> Outcome | None:
    """What a worker settles when a handler ends like this after its context was cancelled; None: nothing.

    An ordinary error of one that was told to stop is no failure of the job.
    """
    if reason is CancelReason.WORKER_SHUTDOWN:
        return Release() if is_ordinary_error(outcome) else outcome
    return outcome if reason is None else None


def is_ordinary_error(outcome: Outcome) -> bool:
    """The handler did not choose it."""
    return isinstance(outcome, Retry) and not outcome.chosen


def _with_causes(error: BaseException, seen: set[int] | None = None) -> str:
    texts, seen = [], set() if seen is None else seen
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        text = _text(cause)
        named = f"{type(cause).__name__}: {text}" if text else type(cause).__name__
        texts.append(named + _with_members(cause, seen))
        cause = cause.__cause__
    return ": caused by ".join(texts)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an error that cannot even say what it is, is one still.
        return "(its text cannot be made)"


def _with_members(error: BaseException, seen: set[int]) -> str:
    """What an exception group, such as a ``TaskGroup`` raises, holds. Python 3.10 has none of its own."""
    members = getattr(error, "exceptions", ())
    if not isinstance(members, tuple):
        return ""
    errors = [one for one in members if isinstance(one, BaseException) and id(one) not in seen]
    texts = [_with_causes(one, seen) for one in errors]
    return f": [{'; '.join(filter(None, texts))}]" if texts else ""


def cut(text: str) -> str:
    """The text, as much of it as servers keep; what UTF-8 cannot hold, as parts of file names, becomes ``?``."""
    return text.encode(errors="replace")[:ERROR_BYTES].decode(errors="ignore")


def outcome_to_wire(token: bytes, outcome: Outcome) -> pb.Settlement:
    """One settlement for the wire."""
    settlement = pb.Settlement(lease_token=token)
    if isinstance(outcome, Retry):
        settlement.retry.error = outcome.because
        if outcome.delay is not None:
            settlement.retry.delay.CopyFrom(_wire.to_duration(outcome.delay))
    elif isinstance(outcome, Fail):
        settlement.fail.error = outcome.reason
    elif isinstance(outcome, Release):
        settlement.release.SetInParent()
    elif isinstance(outcome, Rerun):
        settlement.rerun.delay.CopyFrom(_wire.to_duration(outcome.delay))
        if outcome.payload is not None:
            settlement.rerun.payload = outcome.payload
    else:
        settlement.complete.SetInParent()
    return settlement
