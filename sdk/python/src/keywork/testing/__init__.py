"""For tests of programs that use Keywork: a server in this process, and a way to run a handler without one.

`FakeServer` speaks the real contract over a real socket and keeps everything in memory: keys are unique, leases have
deadlines, dead letters are kept. It does what it is told wrong on purpose, by its `Script`. It stores nothing and
promises nothing about speed.
"""

from __future__ import annotations

import asyncio
import copy
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc

from keywork import sync
from keywork._wire import Seconds, seconds
from keywork.client import Client
from keywork.job import DeadJob, Job, JobState, read_dead, read_job
from keywork.leases import LostReason
from keywork.testing import _sessions
from keywork.testing._run_once import Dropped, FakeContext, run_once, run_once_sync
from keywork.testing._script import Script, Seen, SeenSettlement, SubmitFault
from keywork.testing._services import Fake, QueueAdmin, WorkQueue
from keywork.testing._state import FakeOptions, State
from keywork.testing._status import Status
from keywork.v1 import work_queue_pb2 as pb
from keywork.v1.queue_admin_pb2_grpc import add_QueueAdminServicer_to_server
from keywork.v1.work_queue_pb2_grpc import add_WorkQueueServicer_to_server

if TYPE_CHECKING:
    from types import TracebackType


__all__ = [
    "Dropped",
    "FakeContext",
    "FakeServer",
    "Script",
    "Seen",
    "SeenSettlement",
    "Status",
    "SubmitFault",
    "job",
    "run_once",
    "run_once_sync",
]

#: How long `FakeServer.until` waits, in seconds.
PATIENCE = 20.0
#: Streams take a thread each.
_THREADS = 200
_OPTIONS = (
    # Clients of this package ping more often than gRPC's servers like by default.
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.so_reuseport", 0),
)


def job(queue: str, key: str, payload: bytes | str = b"", **fields: Any) -> Job:
    """A job for `run_once`: its first attempt; `fields` are those of `Job`."""
    given: dict[str, Any] = {
        "id": str(uuid.uuid4()),
        "payload": payload.encode() if isinstance(payload, str) else payload,
        "state": JobState.LEASED,
        "attempt": 1,
        "max_attempts": 10,
        "fencing_number": 1,
    }
    return Job(queue=queue, key=key, **(given | fields))


class FakeServer:
    """A server for tests, on a free port of 127.0.0.1; use it as ``with FakeServer() as server:``."""

    def __init__(
        self,
        *,
        lease_duration: Seconds = 15.0,
        disconnect_grace: Seconds | None = None,
        retry_delay: Seconds = 0.01,
    ) -> None:
        """Starts it.

        Args:
            lease_duration: How long a lease lasts from its last extension; here it may be shorter than servers allow.
            disconnect_grace: After a stream broke, its leases go to others after this long. Default: at their deadline.
            retry_delay: The wait before another attempt, where the handler chose none.
        """
        grace = None if disconnect_grace is None else seconds(disconnect_grace)
        options = FakeOptions(seconds(lease_duration), grace, seconds(retry_delay))
        self._fake = Fake(State(options))
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="keywork-fake")
        self._server = grpc.server(self._pool, options=_OPTIONS)
        add_WorkQueueServicer_to_server(WorkQueue(self._fake), self._server)  # type: ignore[no-untyped-call]
        add_QueueAdminServicer_to_server(QueueAdmin(self._fake), self._server)  # type: ignore[no-untyped-call]
        #: Where it listens, as a URI.
        self.endpoint = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()
        self._clock = threading.Thread(target=self._fake.keep_time, name="keywork-fake-clock", daemon=True)
        self._clock.start()

    def client(self, **options: Any) -> Client:
        """A client of it."""
        return Client(self.endpoint, **options)

    def sync_client(self, **options: Any) -> sync.Client:
        """A client of it for programs without an event loop."""
        return sync.Client(self.endpoint, **options)

    @contextmanager
    def script(self) -> Iterator[Script]:
        """Changes what it does wrong, from the end of the block on."""
        with self._fake.changed:
            yield self._fake.state.script
            self._fake.state.dispatch()
            self._fake.changed.notify_all()

    def seen(self) -> Seen:
        """What it has seen so far."""
        with self._fake.changed:
            return self._copy()

    def outstanding(self, queue: str, key: str) -> Job | None:
        """The outstanding job of a key, or None."""
        with self._fake.changed:
            entry = self._fake.state.entry(queue, key)
            return None if entry is None else read_job(entry.job)

    def dead(self, queue: str) -> list[DeadJob]:
        """The dead letters of a queue."""
        with self._fake.changed:
            found = self._fake.state.queues.get(queue)
            return [] if found is None else [read_dead(dead) for dead in found.dead.values()]

    async def until(self, what: str, is_so: Callable[[Seen], bool]) -> Seen:
        """Waits until what it has seen fulfils `is_so`, and gives that; an AssertionError after 20 s says `what`."""
        return await asyncio.to_thread(self.wait_until, what, is_so)

    def wait_until(self, what: str, is_so: Callable[[Seen], bool]) -> Seen:
        """As `until`, and blocks."""
        with self._fake.changed:
            if not self._fake.changed.wait_for(lambda: is_so(self._fake.state.seen), PATIENCE):
                raise AssertionError(f"waited in vain: {what}; seen: {self._fake.state.seen}")
            return self._copy()

    def end_sessions(self, status: Status | None = None) -> None:
        """Ends every session: with this status, or with OK. Its leases live on until their deadline."""
        self._fake.change(lambda state: _sessions.end_all(state, status))

    def lose_lease(self, queue: str, key: str, reason: LostReason = LostReason.EXPIRED, *, tell: bool = True) -> None:
        """Takes the lease of a key away; its session is told when `tell` is set."""
        self._fake.change(lambda state: state.lose_lease(queue, key, reason.value, tell))

    def go_away(self, *, reconnect_delay: Seconds = 0.0, reason: int = pb.GO_AWAY_REASON_DRAINING) -> None:
        """Says GoAway to every session. It does not end them."""
        self._fake.change(lambda state: _sessions.go_away(state, reason, seconds(reconnect_delay)))

    def stop(self) -> None:
        """Ends it at once."""
        self._fake.stop()
        self._server.stop(None).wait()
        self._pool.shutdown(wait=False)
        self._clock.join()

    def _copy(self) -> Seen:
        seen = copy.copy(self._fake.state.seen)
        for name, value in vars(seen).items():
            if isinstance(value, list):
                setattr(seen, name, list(value))
        return seen

    def __enter__(self) -> FakeServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
