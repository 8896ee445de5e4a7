"""What the tests share: a gate for handlers, a place for what they saw, waits with a deadline."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pytest
import pytest_asyncio

from keywork import CancelReason, Client, Context, Event, Job, Worker
from keywork.testing import FakeServer

T = TypeVar("T")

#: How long anything may take.
PATIENCE = 20.0


class Log(Generic[T]):
    """Something that grows, from any thread, and can be waited for."""

    def __init__(self) -> None:
        self._entries: list[T] = []
        self._changed = threading.Condition()

    def add(self, entry: T) -> None:
        with self._changed:
            self._entries.append(entry)
            self._changed.notify_all()

    def all(self) -> list[T]:
        with self._changed:
            return list(self._entries)

    def wait_until(self, what: str, is_so: Callable[[list[T]], bool]) -> list[T]:
        with self._changed:
            if not self._changed.wait_for(lambda: is_so(self._entries), PATIENCE):
                raise AssertionError(f"waited in vain: {what}; log: {self._entries}")
            return list(self._entries)

    async def until(self, what: str, is_so: Callable[[list[T]], bool]) -> list[T]:
        return await asyncio.to_thread(self.wait_until, what, is_so)


@dataclass(frozen=True)
class Started:
    key: str


@dataclass(frozen=True)
class Cancelled:
    key: str
    reason: CancelReason | None


@dataclass(frozen=True)
class Ended:
    key: str


class Scene:
    """A server, and workers whose handlers wait at a gate until they are let through or cancelled."""

    def __init__(self, server: FakeServer) -> None:
        self.server = server
        self.client: Client = server.client()
        self.steps: Log[Any] = Log()
        self.events: Log[Event] = Log()
        self._gate = asyncio.Event()

    async def submit(self, *keys: str) -> None:
        for key in keys:
            assert (await self.client.submit("q", key)).accepted

    async def at_the_gate(self, context: Context, job: Job) -> None:
        self.steps.add(Started(job.key))
        try:
            await self._gate.wait()
        except asyncio.CancelledError:
            self.steps.add(Cancelled(job.key, context.reason))
            raise
        self.steps.add(Ended(job.key))

    def open_gate(self) -> None:
        self._gate.set()

    def worker(self, handler: Any = None, **options: Any) -> Worker:
        merged: dict[str, Any] = {"concurrency": 4, "on_event": self.events.add} | options
        return Worker(self.client, ["q"], handler or self.at_the_gate, **merged)

    async def until_started(self, count: int) -> None:
        await self.steps.until(
            "handlers to start", lambda steps: sum(isinstance(step, Started) for step in steps) >= count
        )

    async def until_cancelled(self, key: str, reason: CancelReason) -> None:
        step = Cancelled(key, reason)
        await self.steps.until(f"{step}", lambda steps: step in steps)

    async def until_event(self, kind: type[Event]) -> None:
        await self.events.until(kind.__name__, lambda events: any(isinstance(event, kind) for event in events))


async def _scene(**options: Any) -> AsyncIterator[Scene]:
    with FakeServer(**options) as server:
        scene = Scene(server)
        async with scene.client:
            yield scene


@pytest_asyncio.fixture
async def scene() -> AsyncIterator[Scene]:
    """Leases last so long that no heartbeat is due by itself while a test waits."""
    async for scene in _scene(lease_duration=120):
        yield scene


@pytest_asyncio.fixture
async def short() -> AsyncIterator[Scene]:
    """Leases last 1.5 s: the shortest that a busy machine keeps to."""
    async for scene in _scene(lease_duration=1.5):
        yield scene


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server


async def within(what: str, wait: Any) -> Any:
    """Waits, but not for ever."""
    try:
        return await asyncio.wait_for(wait, PATIENCE)
    except asyncio.TimeoutError:
        raise AssertionError(f"waited in vain: {what}") from None
