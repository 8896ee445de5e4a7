"""Offering jobs, looking at them, and looking after queues: the async client."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import grpc

from keywork import _calls
from keywork._core import Core
from keywork._patience import Patience
from keywork._pump import WINDOW, Answer, Pump
from keywork._watch import Watch
from keywork.errors import CallError
from keywork.job import DeadJob, Job, Submitted
from keywork.queues import Page, Queue, QueueConfig
from keywork.submit import OnConflict, Submit

if TYPE_CHECKING:
    import uuid
    from collections.abc import Mapping
    from datetime import datetime
    from types import TracebackType

    from keywork._calls import Call, Redriven
    from keywork._wire import Seconds
    from keywork.leases import Leased, LeaseExtension, Settled
    from keywork.outcomes import Outcome
    from keywork.schedules import Schedule
    from keywork.submit import Backoff

T = TypeVar("T")

#: Goes on: the interceptors after this one, and then the submit.
SubmitNext: TypeAlias = Callable[[Submit], Awaitable[Submitted]]
#: Wraps every `Client.submit`.
SubmitInterceptor: TypeAlias = Callable[[Submit, SubmitNext], Awaitable[Submitted]]


class Client(Core):
    """A connection to Keywork's servers.

    It connects when it is first used, belongs to no event loop, and may be shared by all tasks. It retries what is
    safe to retry and tells the rest to the caller; it never runs jobs: that is a `Worker`'s part.
    """

    async def submit(
        self,
        queue: str,
        key: str,
        payload: bytes | str = b"",
        *,
        content_type: str = "",
        attributes: Mapping[str, str] | None = None,
        request_id: str | uuid.UUID = "",
        on_conflict: OnConflict = OnConflict.REJECT,
        delay: Seconds | None = None,
        start_at: datetime | None = None,
        expires_at: datetime | None = None,
        max_attempts: int = 0,
        backoff: Backoff | None = None,
    ) -> Submitted:
        """Offers one job; see `Submit` for the options.

        While servers are away it tries again, with the same ``request_id``, until the client's submit deadline.

        Raises:
            CallError: The job was refused, or no server answered in time; `CallError.has_no_side_effects` says
                whether the job may have been accepted.
        """
        submit = Submit(
            queue,
            key,
            payload,
            content_type,
            attributes or {},
            request_id,
            on_conflict,
            delay,
            start_at,
            expires_at,
            max_attempts,
            backoff,
        )
        submitting: SubmitNext = self._submit
        for interceptor in reversed(self._interceptors):
            submitting = functools.partial(_around, interceptor, submitting)
        return await submitting(submit)

    async def _submit(self, submit: Submit) -> Submitted:
        return await self._do(_calls.submit_one(self._offer(submit)))

    async def submit_batch(self, submits: Iterable[Submit]) -> list[Submitted | CallError]:
        """Offers up to 1,000 jobs in one call, and answers in their order. A bad one spoils no other.

        While servers are away the call is repeated, with the same ``request_id``s. For more of them, or without
        waiting for the slowest: `submit_many`.

        Raises:
            CallError: The call failed as a whole.
        """
        offers = [self._offer_of_many(submit) for submit in submits]
        return await self._do(_calls.submit_batch(offers)) if offers else []

    async def submit_many(self, submits: Iterable[Submit] | AsyncIterable[Submit]) -> list[Submitted | CallError]:
        """Offers many jobs on one stream, and answers in their order. A bad one spoils no other.

        Unanswered offers are made again, with the same ``request_id``s, when the stream breaks; an offer whose
        answer is an error has failed for good or stayed unanswered for the client's submit deadline.
        """
        answers: dict[int, Submitted | CallError] = {}
        async for place, answer in self.submit_stream(submits):
            answers[place] = answer
        return [answers[place] for place in range(len(answers))]

    async def submit_stream(
        self, submits: Iterable[Submit] | AsyncIterable[Submit]
    ) -> AsyncGenerator[tuple[int, Submitted | CallError], None]:
        """Offers jobs as they come, and yields each answer, with its offer's place in the order, when it is there.

        For sources without an end. Ending the iteration ends it.
        """
        answers = _Answers()
        pump = Pump(self._channels, answers.put)
        pump.start()
        feeding = asyncio.ensure_future(self._feed(submits, pump, answers))
        feeding.add_done_callback(answers.fed)
        try:
            while (batch := await answers.get()) is not None:
                for answer in batch:
                    yield answer
            await feeding
        finally:
            feeding.cancel()
            pump.close()

    async def _feed(self, submits: Iterable[Submit] | AsyncIterable[Submit], pump: Pump, answers: _Answers) -> None:
        async for submit in _each(submits):
            await answers.room()
            offer = self._offer_of_many(submit)
            answers.offered += 1
            pump.offer(offer)
        pump.end()

    async def get_job(self, queue: str, key: str) -> Job | None:
        """The outstanding job of a key, with its payload; None when the key is free."""
        return await self._do(_calls.get_job(queue, key))

    async def list_jobs(
        self, queue: str, *, key_prefix: str = "", page_size: int = 0, page_token: str = ""
    ) -> Page[Job]:
        """A page of a queue's outstanding jobs, without payloads."""
        return await self._do(_calls.list_jobs(queue, key_prefix, page_size, page_token))

    async def watch_jobs(self, queue: str, key: str = "") -> AsyncGenerator[Job, None]:
        """Yields jobs of a queue, or of one key, as their states change."""
        watch = Watch(self._channels, queue, key)
        loop = asyncio.get_running_loop()
        seen: asyncio.Queue[Job | CallError | None] = asyncio.Queue()

        def put(item: Job | CallError | None) -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(seen.put_nowait, item)

        watch.start(put)
        try:
            while (item := await seen.get()) is not None:
                if isinstance(item, CallError):
                    raise item
                yield item
        finally:
            watch.close()

    async def cancel_job(self, queue: str, key: str, *, job_id: str = "") -> Job:
        """Ends the outstanding job of a key; with a `job_id` only if it is that one."""
        return await self._do(_calls.cancel_job(queue, key, job_id))

    async def list_dead_jobs(
        self, queue: str, *, key: str = "", page_size: int = 0, page_token: str = ""
    ) -> Page[DeadJob]:
        """A page of a queue's dead letters, oldest first; `key` narrows it to one key."""
        return await self._do(_calls.list_dead_jobs(queue, key, page_size, page_token))

    async def dead_jobs(self, queue: str, *, key: str = "", page_size: int = 0) -> AsyncGenerator[DeadJob, None]:
        """Yields all of a queue's dead letters, oldest first, and reads them page by page."""
        async for dead in _paged(
            lambda token: self.list_dead_jobs(queue, key=key, page_size=page_size, page_token=token)
        ):
            yield dead

    async def redrive_dead_jobs(self, queue: str, dead_ids: Iterable[int]) -> list[Redriven]:
        """Submits these dead letters again, with attempts counted from 1.

        Repeating it is safe: one that was redriven is no dead letter any more.
        """
        ids = list(dead_ids)
        # To the server no ids would mean the oldest.
        return await self._do(_calls.redrive_dead_jobs(queue, ids)) if ids else []

    async def redrive_oldest_dead_jobs(self, queue: str, max_jobs: int = 100) -> list[Redriven]:
        """As `redrive_dead_jobs`, for the oldest: so many, at most 1,000."""
        # To the server no number would mean its own.
        return await self._do(_calls.redrive_oldest_dead_jobs(queue, max_jobs)) if max_jobs else []

    async def delete_dead_jobs(self, queue: str, dead_ids: Iterable[int]) -> int:
        """Deletes these dead letters for good; tells how many there were."""
        ids = list(dead_ids)
        return await self._do(_calls.delete_dead_jobs(queue, ids, False)) if ids else 0

    async def delete_all_dead_jobs(self, queue: str) -> int:
        """Deletes all dead letters of a queue for good; tells how many there were."""
        return await self._do(_calls.delete_dead_jobs(queue, (), True))

    async def pull(
        self, queue: str, *, max_jobs: int = 1, wait: Seconds | None = None, worker_id: str = ""
    ) -> list[Leased]:
        """Leases jobs without a stream; none when the wait (20 s) ended without one.

        The caller keeps the deadlines: extend with `heartbeat`, settle with `ack`.
        """
        return await self._do(_calls.pull(queue, max_jobs, wait, worker_id))

    async def heartbeat(self, tokens: Iterable[bytes]) -> list[LeaseExtension]:
        """Extends leases: one result for each token, in their order."""
        return await self._do(_calls.heartbeat(tokens))

    async def ack(self, settlements: Iterable[tuple[bytes, Outcome | None]]) -> list[Settled]:
        """Settles leases, each by its token and an outcome such as `Retry` (None completes).

        One result for each, in their order. Repeating it is safe.
        """
        return await self._do(_calls.ack(settlements))

    async def create_queue(self, name: str, config: QueueConfig | None = None) -> Queue:
        """Makes a queue; also when it is there already with this configuration."""
        return await self._do(_calls.create_queue(name, config or QueueConfig()))

    async def update_queue(self, name: str, config: QueueConfig) -> Queue:
        """Changes what is set in `config`, and nothing else."""
        return await self._do(_calls.update_queue(name, config))

    async def get_queue(self, name: str) -> Queue:
        """One queue with its counts."""
        return await self._do(_calls.get_queue(name))

    async def list_queues(self, *, page_size: int = 0, page_token: str = "") -> Page[Queue]:
        """A page of all queues, by name."""
        return await self._do(_calls.list_queues(page_size, page_token))

    async def queues(self, *, page_size: int = 0) -> AsyncGenerator[Queue, None]:
        """Yields all queues, by name, and reads them page by page."""
        async for queue in _paged(lambda token: self.list_queues(page_size=page_size, page_token=token)):
            yield queue

    async def delete_queue(self, name: str, *, force: bool = False) -> None:
        """Deletes a queue; with `force` also when it holds jobs or dead letters."""
        await self._do(_calls.delete_queue(name, force))

    async def pause_queue(self, name: str) -> Queue:
        """Stops deliveries. Leases that are out go on; submits are accepted."""
        return await self._do(_calls.pause_queue(name))

    async def resume_queue(self, name: str) -> Queue:
        """Goes on with deliveries."""
        return await self._do(_calls.resume_queue(name))

    async def purge_queue(self, name: str) -> int:
        """Ends all outstanding jobs of a queue without running them; tells how many."""
        return await self._do(_calls.purge_queue(name))

    async def put_schedule(self, schedule: Schedule) -> Schedule:
        """Makes or replaces a schedule."""
        return await self._do(_calls.put_schedule(schedule))

    async def get_schedule(self, name: str) -> Schedule:
        """One schedule."""
        return await self._do(_calls.get_schedule(name))

    async def list_schedules(self, *, page_size: int = 0, page_token: str = "") -> Page[Schedule]:
        """A page of all schedules, by name."""
        return await self._do(_calls.list_schedules(page_size, page_token))

    async def delete_schedule(self, name: str) -> None:
        """Ends a schedule. Jobs that it submitted stay."""
        await self._do(_calls.delete_schedule(name))

    def channel(self) -> grpc.aio.Channel:
        """A new channel to the server in use, for the stubs of `keywork.raw`: every RPC and every field.

        It belongs to the running loop, retries nothing, and is the caller's to close. Give `metadata` to each call.
        """
        return self._channels.options.connect_aio(self._channels.place)

    async def aclose(self) -> None:
        """Closes the connections; calls that are under way fail."""
        self._channels.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _do(self, call: Call[T]) -> T:
        if not call.repeat:
            return await self._once(call)
        patience = Patience(self._channels, time.monotonic() + self._channels.options.submit_deadline)
        while True:
            patience.begin()
            try:
                return await self._once(call, patience.deadline - time.monotonic())
            except CallError as error:
                pause = patience.after(error)
            await asyncio.sleep(pause)

    async def _once(self, call: Call[T], limit: float | None = None) -> T:
        place, future = self._begin(call, limit)
        loop = asyncio.get_running_loop()
        answered = loop.create_future()

        def wake(_: Any) -> None:
            # The loop is closed when nobody waits any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_set, answered)

        future.add_done_callback(wake)
        try:
            await answered
        except asyncio.CancelledError:
            future.cancel()
            raise
        return self._finish(call, place, future)


async def _paged(fetch: Callable[[str], Awaitable[Page[T]]]) -> AsyncGenerator[T, None]:
    page = await fetch("")
    while True:
        for item in page:
            yield item
        if not page.next_page_token:
            return
        page = await fetch(page.next_page_token)


async def _each(submits: Iterable[Submit] | AsyncIterable[Submit]) -> AsyncIterator[Submit]:
    if isinstance(submits, AsyncIterable):
        async for submit in submits:
            yield submit
    else:
        for submit in submits:
            yield submit


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _around(interceptor: SubmitInterceptor, following: SubmitNext, submit: Submit) -> Submitted:
    return await interceptor(submit, following)


class _Answers:
    """Where the pump's thread and the caller's loop meet: answers one way, room for offers the other."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._batches: deque[list[Answer]] = deque()
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._all_offered = False
        self._failed = False
        self.offered = 0
        self._taken = 0

    def put(self, answers: list[Answer]) -> None:
        """Called by the pump's thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._put, answers)

    def _put(self, answers: list[Answer]) -> None:
        self._batches.append(answers)
        self._changed.set()

    def fed(self, feeding: asyncio.Future[None]) -> None:
        """The source has ended, or failed."""
        self._all_offered = True
        self._failed = feeding.cancelled() or feeding.exception() is not None
        self._changed.set()

    async def get(self) -> list[Answer] | None:
        """The next answers; None when there are no more, or the source failed."""
        while not self._batches:
            if self._failed or (self._all_offered and self._taken == self.offered):
                return None
            self._changed.clear()
            await self._changed.wait()
        batch = self._batches.popleft()
        self._taken += len(batch)
        self._room.set()
        return batch

    def has_room(self) -> bool:
        """Another offer may be made: what is not taken counts as in flight."""
        return self.offered - self._taken < WINDOW

    async def room(self) -> None:
        """Waits until another offer may be made."""
        while not self.has_room():
            self._room.clear()
            await self._room.wait()
