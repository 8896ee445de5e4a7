"""Queues and their configuration."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Generic, TypeVar

from keywork import _fields, _wire
from keywork.submit import Backoff, backoff_to_wire
from keywork.v1 import queue_admin_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from keywork._wire import Seconds

T = TypeVar("T")

_DURATIONS = (
    "lease_duration",
    "max_run_time",
    "disconnect_grace",
    "dead_letter_retention",
    "dedupe_window",
)


@dataclass(slots=True)
class QueueConfig:
    """The configuration of a queue. What is not set takes the server's default. Times are in seconds."""

    #: How long a lease lasts from its last extension: 2 s to 12 h. Default: 15 s.
    lease_duration: Seconds | None = None
    #: The longest that one attempt may run, heartbeats or not; zero: no limit. Default: 1 h.
    max_run_time: Seconds | None = None
    #: Attempts before a job becomes a dead letter: 1 to 1,000. Default: 10.
    max_attempts: int | None = None
    #: The waits between attempts. Default: 1 s doubling to 10 min.
    backoff: Backoff | None = None
    #: The most outstanding jobs. Default: 10,000,000.
    max_depth: int | None = None
    #: The largest payload in bytes. Default: 524,288.
    max_payload_bytes: int | None = None
    #: After a worker's stream broke, its leases go to others after this long. Default: at their deadline.
    disconnect_grace: Seconds | None = None
    #: How long dead letters are kept. Default: 14 days.
    dead_letter_retention: Seconds | None = None
    #: How long a ``request_id`` is remembered. Default: 2 min.
    dedupe_window: Seconds | None = None

    def _set_fields(self) -> list[str]:
        """The names of the fields that are set, as an update's mask has them."""
        return [f.name for f in fields(self) if getattr(self, f.name) is not None]


def config_to_wire(config: QueueConfig) -> pb.QueueConfig:
    """A configuration for the wire."""
    wire = _fields.message(
        pb.QueueConfig,
        within="config.",
        max_attempts=config.max_attempts,
        max_depth=config.max_depth,
        max_payload_bytes=config.max_payload_bytes,
    )
    for name in _DURATIONS:
        value: Seconds | None = getattr(config, name)
        if value is not None:
            getattr(wire, name).CopyFrom(_fields.duration(f"config.{name}", value))
    if config.backoff is not None:
        wire.backoff.CopyFrom(backoff_to_wire(config.backoff, "config."))
    return wire


def update_request(name: str, config: QueueConfig) -> pb.UpdateQueueRequest:
    """Changes what is set in `config`, and nothing else."""
    request = pb.UpdateQueueRequest(name=name, config=config_to_wire(config))
    request.update_mask.paths.extend(config._set_fields())
    return request


def read_config(wire: pb.QueueConfig) -> QueueConfig:
    """A configuration of the wire; times become seconds."""
    config = QueueConfig()
    for name in _DURATIONS:
        if wire.HasField(name):
            setattr(config, name, _wire.from_duration(getattr(wire, name)))
    for name in ("max_attempts", "max_depth", "max_payload_bytes"):
        if wire.HasField(name):
            setattr(config, name, getattr(wire, name))
    if wire.HasField("backoff"):
        initial = _wire.from_duration(wire.backoff.initial)
        longest = _wire.from_duration(wire.backoff.max) if wire.backoff.HasField("max") else initial
        config.backoff = Backoff(initial, longest)
    return config


@dataclass(slots=True)
class QueueStats:
    """What is in a queue."""

    #: Outstanding jobs.
    outstanding: int = 0
    #: Of these, never delivered yet.
    ready: int = 0
    #: Of these, leased, scheduled or waiting to retry.
    in_flight: int = 0
    #: Dead letters.
    dead: int = 0
    #: Sessions that serve it, at the server that answers.
    sessions: int = 0


@dataclass(slots=True)
class Queue:
    """One queue."""

    #: The name.
    name: str
    #: The configuration, defaults filled in.
    config: QueueConfig
    #: True: no deliveries.
    paused: bool = False
    #: When it was made.
    created_at: datetime | None = None
    #: What is in it.
    stats: QueueStats = field(default_factory=QueueStats)
    #: How many NATS nodes keep it.
    replicas: int = 0


def read_queue(wire: pb.Queue) -> Queue:
    """A queue of the wire."""
    stats = wire.stats
    return Queue(
        name=wire.name,
        config=read_config(wire.config),
        paused=wire.paused,
        created_at=_wire.time(wire, "created_at"),
        stats=QueueStats(stats.outstanding, stats.ready, stats.in_flight, stats.dead, stats.sessions),
        replicas=wire.replicas,
    )


@dataclass(slots=True)
class Page(Generic[T]):
    """Part of a list."""

    #: What is on it.
    items: list[T]
    #: Give it to the same call to get the next page; empty: there are no more.
    next_page_token: str = ""

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)
