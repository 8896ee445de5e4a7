"""Errors as a fake server says them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2

from keywork import reasons
from keywork._wire import to_duration
from keywork.v1 import work_queue_pb2 as pb


@dataclass
class Status:
    """A gRPC status with what Keywork's servers add to it."""

    #: The code.
    code: grpc.StatusCode
    #: For people.
    message: str = ""
    #: One of `keywork.reasons`.
    reason: str = ""
    #: The field at fault; `message` is what is wrong with it.
    field: str = ""
    #: When to try again, in seconds.
    retry_after: float | None = None
    #: "none" or "unknown"; for UNAVAILABLE.
    side_effects: str = ""

    def abort(self, context: Any) -> None:
        """Ends a call with it: raises."""
        metadata: list[tuple[str, str | bytes]] = [("grpc-status-details-bin", self._details())]
        if self.side_effects:
            metadata.append(("side_effects", self.side_effects))
        context.set_trailing_metadata(metadata)
        context.abort(self.code, self.message)

    def _details(self) -> bytes:
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        details: list[Any] = []
        if self.reason:
            details.append(error_details_pb2.ErrorInfo(reason=self.reason, domain="keywork.dev"))
        if self.field:
            violation = error_details_pb2.BadRequest.FieldViolation(field=self.field, description=self.message)
            details.append(error_details_pb2.BadRequest(field_violations=[violation]))
        if self.retry_after is not None:
            details.append(error_details_pb2.RetryInfo(retry_delay=to_duration(self.retry_after)))
        for detail in details:
            packed = AnyMessage()
            packed.Pack(detail)
            status.details.append(packed)
        encoded: bytes = status.SerializeToString()
        return encoded

    def item(self) -> pb.ItemError:
        """What the status of a unary call says, for one item of a batch."""
        error = pb.ItemError(
            code=self.code.value[0],
            message=self.message,
            reason=self.reason,
            field=self.field,
            side_effects_unknown=self.side_effects == "unknown",
        )
        if self.retry_after is not None:
            error.retry_after.CopyFrom(to_duration(self.retry_after))
        return error


class Refused(Exception):  # noqa: N818 - it never leaves the fake server.
    """A call is answered with this status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


def refusal(code: grpc.StatusCode, reason: str, message: str) -> Refused:
    """A refusal with its stable reason."""
    return Refused(Status(code, message, reason))


def bad_field(field: str, description: str) -> Refused:
    """A refusal that names a field."""
    return Refused(Status(grpc.StatusCode.INVALID_ARGUMENT, description, reasons.INVALID_FIELD, field))


def outage(side_effects: str) -> Refused:
    """NATS is away: `side_effects` is "none" or "unknown"."""
    reason = reasons.NATS_UNAVAILABLE if side_effects == "none" else reasons.NATS_NO_ANSWER
    code = grpc.StatusCode.UNAVAILABLE
    return Refused(Status(code, "NATS is away", reason, retry_after=0.01, side_effects=side_effects))
