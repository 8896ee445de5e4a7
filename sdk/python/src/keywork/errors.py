"""What can go wrong.

A call that failed is a `CallError`, which answers two questions: may I try again, and can anything have
happened? That a key is busy is no error: see `Submitted`. A worker that ends otherwise than because it was
asked to raises a `WorkerError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode

from keywork import reasons
from keywork._wire import from_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keywork.v1 import work_queue_pb2 as pb

__all__ = [
    "AlreadyExistsError",
    "CallError",
    "FailedPreconditionError",
    "FieldViolation",
    "InvalidArgumentError",
    "KeyworkError",
    "NotFoundError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "StatusCode",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "WorkerBrokenError",
    "WorkerError",
    "WorkerForcedError",
    "WorkerRefusedError",
    "WorkerSupersededError",
]


class KeyworkError(Exception):
    """Every error of this package."""


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One field at fault."""

    #: The field's path in the request, such as ``items[3].key``.
    field: str
    #: What is wrong with it, naming the limit.
    description: str


class CallError(KeyworkError):
    """A call that failed: a refusal, a server that could not, or a connection that broke."""

    def __init__(
        self,
        code: StatusCode,
        message: str,
        *,
        reason: str = "",
        violations: Sequence[FieldViolation] = (),
        retry_after: float | None = None,
        nothing_happened: bool = False,
        broken: bool = False,
    ) -> None:
        super().__init__(code, message)
        #: The gRPC code.
        self.code = code
        #: What the server said, for people.
        self.message = message
        #: The stable name of what went wrong: one of `keywork.reasons`, or empty where none was given.
        self.reason = reason
        #: The fields at fault, where the request was refused for them.
        self.violations = tuple(violations)
        #: In how many seconds the server thinks that trying again can help.
        self.retry_after = retry_after
        self._nothing_happened = nothing_happened
        self._broken = broken

    def is_retryable(self) -> bool:
        """True: the same call may succeed later. Repeat a submit with the same ``request_id``."""
        if self._is_outage() or self.retry_after is not None:
            return True
        return self.reason != reasons.SESSION_SUPERSEDED and self.code in _RETRYABLE

    def has_no_side_effects(self) -> bool:
        """True: nothing was stored or changed by the call. False: something may have been."""
        return self._nothing_happened

    def _is_outage(self) -> bool:
        """The server or the way to it is away: what this package retries by itself."""
        return self._broken or self.code is StatusCode.UNAVAILABLE

    def _with_doubt(self, doubt: bool) -> CallError:
        """The same error, where an earlier try of the same call may have had an effect."""
        if doubt:
            self._nothing_happened = False
        return self

    def __str__(self) -> str:
        text = self.message or self.code.name
        if self.reason:
            text += f" [{self.reason}]"
        told = (f"; {v.field}: {v.description}" for v in self.violations if v.description not in self.message)
        return text + "".join(told)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.code.name}: {self}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.code, self.message, self.__dict__)


def _rebuilt(kind: type[CallError], code: StatusCode, message: str, state: dict[str, Any]) -> CallError:
    error = kind(code, message)
    error.__dict__.update(state)
    return error


class InvalidArgumentError(CallError):
    """A field is malformed or breaks a limit; `violations` names it."""


class NotFoundError(CallError):
    """There is no such queue, job or dead letter."""


class AlreadyExistsError(CallError):
    """It is there already: a queue with another configuration, or a busy key where an error was asked for."""


class FailedPreconditionError(CallError):
    """The queue is not in the state that the call needs."""


class ResourceExhaustedError(CallError):
    """The queue, or NATS, is full."""


class UnavailableError(CallError):
    """The server, or NATS behind it, is away."""


class UnauthenticatedError(CallError):
    """No credential, or a bad one."""


class PermissionDeniedError(CallError):
    """Not allowed."""


class UnimplementedError(CallError):
    """The contract has it, and this server does not serve it yet."""


_BY_CODE: dict[StatusCode, type[CallError]] = {
    StatusCode.INVALID_ARGUMENT: InvalidArgumentError,
    StatusCode.NOT_FOUND: NotFoundError,
    StatusCode.ALREADY_EXISTS: AlreadyExistsError,
    StatusCode.FAILED_PRECONDITION: FailedPreconditionError,
    StatusCode.RESOURCE_EXHAUSTED: ResourceExhaustedError,
    StatusCode.UNAVAILABLE: UnavailableError,
    StatusCode.UNAUTHENTICATED: UnauthenticatedError,
    StatusCode.PERMISSION_DENIED: PermissionDeniedError,
    StatusCode.UNIMPLEMENTED: UnimplementedError,
}
_CODE_OF_NUMBER = {code.value[0]: code for code in StatusCode}
_RETRYABLE = frozenset(
    {StatusCode.RESOURCE_EXHAUSTED, StatusCode.ABORTED, StatusCode.DEADLINE_EXCEEDED},
)
#: Codes with which a server turns a request away before it acts on it.
_REFUSALS = frozenset(
    {
        StatusCode.INVALID_ARGUMENT,
        StatusCode.NOT_FOUND,
        StatusCode.ALREADY_EXISTS,
        StatusCode.PERMISSION_DENIED,
        StatusCode.UNAUTHENTICATED,
        StatusCode.RESOURCE_EXHAUSTED,
        StatusCode.FAILED_PRECONDITION,
        StatusCode.OUT_OF_RANGE,
        StatusCode.UNIMPLEMENTED,
    },
)
#: Codes that gRPC makes on this side when the connection broke or the time was up.
_BREAKS = frozenset(
    {
        StatusCode.UNAVAILABLE,
        StatusCode.UNKNOWN,
        StatusCode.CANCELLED,
        StatusCode.DEADLINE_EXCEEDED,
    },
)
#: What gRPC says when no connection was made, so that nothing can have been sent.
_NEVER_CONNECTED = (
    "failed to connect to",
    "DNS resolution failed",
    "errors resolving",
    "Failed to create secure client channel",
)


def make(code: StatusCode, message: str, **details: Any) -> CallError:
    """The error of a code, in the class of that code."""
    return _BY_CODE.get(code, CallError)(code, message, **details)


def bad_field(field: str, description: str) -> CallError:
    """A field that this side found wrong before anything was sent: as a server says it."""
    return make(
        StatusCode.INVALID_ARGUMENT,
        f"{field}: {description}",
        reason=reasons.INVALID_FIELD,
        violations=[FieldViolation(field, description)],
        nothing_happened=True,
    )


def unanswered(message: str) -> CallError:
    """A call that got no answer in time, or whose stream ended without one."""
    return make(StatusCode.UNAVAILABLE, message, broken=True)


def of_rpc(error: grpc.RpcError, server: str = "") -> CallError:
    """The error of a call or a stream that ended with a status; that of a connection names the server."""
    # What gRPC raises is a call too, which its types do not say.
    call: Any = error
    code, message = call.code(), call.details() or ""
    metadata = dict(call.trailing_metadata() or ())
    details = _details(metadata.get("grpc-status-details-bin"))
    broken = not details["reason"] and _is_broken(code, message)
    return make(
        code,
        f"{server}: {message}" if broken and server else message,
        nothing_happened=_nothing_happened(metadata.get("side_effects"), code, message),
        broken=broken,
        **details,
    )


def of_item(item: pb.ItemError) -> CallError:
    """The error of one item of a batch."""
    # The message is that of a status, "field: what is wrong"; a violation does not say the field twice.
    description = item.message.removeprefix(f"{item.field}: ")
    violations = [FieldViolation(item.field, description)] if item.field else []
    return make(
        _CODE_OF_NUMBER.get(item.code, StatusCode.UNKNOWN),
        item.message,
        reason=item.reason,
        violations=violations,
        retry_after=from_duration(item.retry_after) if item.HasField("retry_after") else None,
        nothing_happened=not item.side_effects_unknown,
    )


def _details(encoded: str | bytes | None) -> dict[str, Any]:
    found: dict[str, Any] = {"reason": "", "violations": [], "retry_after": None}
    if not isinstance(encoded, bytes):
        return found
    info, bad, retry = (
        error_details_pb2.ErrorInfo(),
        error_details_pb2.BadRequest(),
        error_details_pb2.RetryInfo(),
    )
    for detail in status_pb2.Status.FromString(encoded).details:
        if detail.Unpack(info):
            found["reason"] = info.reason
        elif detail.Unpack(bad):
            found["violations"] = [FieldViolation(v.field, v.description) for v in bad.field_violations]
        elif detail.Unpack(retry) and retry.HasField("retry_delay"):
            found["retry_after"] = from_duration(retry.retry_delay)
    return found


def _nothing_happened(said: str | bytes | None, code: StatusCode, message: str) -> bool:
    """The server's word where it gave one; otherwise what the code implies."""
    if said is not None:
        return said in ("none", b"none")
    never_connected = code is StatusCode.UNAVAILABLE and any(text in message for text in _NEVER_CONNECTED)
    return never_connected or code in _REFUSALS


def _is_broken(code: StatusCode, message: str) -> bool:
    return code in _BREAKS or (code is StatusCode.INTERNAL and "RST_STREAM" in message)


class WorkerError(KeyworkError):
    """Why a worker stopped, other than because it was asked to."""


class WorkerRefusedError(WorkerError):
    """The server refuses what the worker asks for, and would again. `error` is what it said."""

    def __init__(self, error: CallError) -> None:
        super().__init__(f"failed to open the session: {error}")
        #: What the server said.
        self.error = error
        self.__cause__ = error


class WorkerSupersededError(WorkerError):
    """A newer session has the same worker id; going on would only take turns with it."""

    def __init__(self) -> None:
        super().__init__("failed to go on: a newer worker has the same worker id")


class WorkerForcedError(WorkerError):
    """The worker was told to stop at once: handlers were cancelled and their jobs released."""

    def __init__(self) -> None:
        super().__init__("failed to finish the running jobs: stopped at once")


class WorkerBrokenError(WorkerError):
    """The worker's loop ended unexpectedly; handlers were cancelled."""

    def __init__(self) -> None:
        super().__init__("failed to go on: the worker's loop ended unexpectedly")
