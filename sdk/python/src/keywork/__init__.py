"""Keywork's client and worker for Python.

Keywork is a work queue in which a key has at most one outstanding job. This package is one side of the wire: `Client`
offers jobs and looks after queues, `Worker` runs them, `keywork.testing` stands in for a server. `keywork.sync` has the
same for programs without an event loop. It knows the contract in ``proto/`` and nothing else of Keywork.
"""

from grpc import StatusCode

from keywork import events, reasons
from keywork._calls import Redriven
from keywork._version import __version__
from keywork.client import Client, SubmitInterceptor, SubmitNext
from keywork.context import Cancelled, CancelReason, Context
from keywork.errors import (
    AlreadyExistsError,
    CallError,
    FailedPreconditionError,
    FieldViolation,
    InvalidArgumentError,
    KeyworkError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
    WorkerBrokenError,
    WorkerError,
    WorkerForcedError,
    WorkerRefusedError,
    WorkerSupersededError,
)
from keywork.events import Counts, Event
from keywork.handlers import Handler, Interceptor, Next
from keywork.job import DeadJob, DeadReason, Job, JobState, SubmitOutcome, Submitted
from keywork.leases import Leased, LeaseExtension, LostReason, Settled, SettledOutcome
from keywork.outcomes import Complete, Fail, Outcome, Release, Rerun, Retry
from keywork.queues import Page, Queue, QueueConfig, QueueStats
from keywork.schedules import Schedule
from keywork.submit import Backoff, OnConflict, Submit
from keywork.tracing import Tracing
from keywork.worker import Worker

__all__ = [
    "AlreadyExistsError",
    "Backoff",
    "CallError",
    "CancelReason",
    "Cancelled",
    "Client",
    "Complete",
    "Context",
    "Counts",
    "DeadJob",
    "DeadReason",
    "Event",
    "Fail",
    "FailedPreconditionError",
    "FieldViolation",
    "Handler",
    "Interceptor",
    "InvalidArgumentError",
    "Job",
    "JobState",
    "KeyworkError",
    "LeaseExtension",
    "Leased",
    "LostReason",
    "Next",
    "NotFoundError",
    "OnConflict",
    "Outcome",
    "Page",
    "PermissionDeniedError",
    "Queue",
    "QueueConfig",
    "QueueStats",
    "Redriven",
    "Release",
    "Rerun",
    "ResourceExhaustedError",
    "Retry",
    "Schedule",
    "Settled",
    "SettledOutcome",
    "StatusCode",
    "Submit",
    "SubmitInterceptor",
    "SubmitNext",
    "SubmitOutcome",
    "Submitted",
    "Tracing",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "Worker",
    "WorkerBrokenError",
    "WorkerError",
    "WorkerForcedError",
    "WorkerRefusedError",
    "WorkerSupersededError",
    "__version__",
    "events",
    "reasons",
]
