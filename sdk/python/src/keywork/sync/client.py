"""Offering jobs, looking at them, and looking after queues: the client for programs without an event loop."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeAlias, TypeVar

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
SubmitNext: TypeAlias = Callable[[Submit], Submitted]
#: Wraps every `Client.submit`.
SubmitInterceptor: TypeAlias = Callable[[Submit, SubmitNext], Submitted]


class Client(Core):
    """A connection to Keywork's servers.

    As `keywork.Client`, with calls that block. It connects when it is first used, and may be shared by all threads.
    """

    def submit(
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
        return submitting(submit)

    def _submit(self, submit: Submit) -> Submitted:
        return self._do(_calls.submit_one(self._offer(submit)))

    def submit_batch(self, submits: Iterable[Submit]) -> list[Submitted | CallError]:
        """Offers up to 1,000 jobs in one call, and answers in their order. A bad one spoils no other.

        While servers are away the call is repeated, with the same ``request_id``s. For more of them, or without
        waiting for the slowest: `submit_many`.

        Raises:
            CallError: The call failed as a whole.
        """
        offers = [self._offer_of_many(submit) for submit in submits]
        return self._do(_calls.submit_batch(offers)) if offers else []

    def submit_many(self, submits: Iterable[Submit]) -> list[Submitted | CallError]:
        """Offers many jobs on one stream, and answers in their order. A bad one spoils no other.

        Unanswered offers are made again, with the same ``request_id``s, when the stream breaks; an offer whose
        answer is an error has failed for good or stayed unanswered for the client's submit deadline.
        """
        answers: dict[int, Submitted | CallError] = {}
        for place, answer in self.submit_stream(submits):
            answers[place] = answer
        return [answers[place] for place in range(len(answers))]

    def submit_stream(self, submits: Iterable[Submit]) -> Generator[tuple[int, Submitted | CallError], None, None]:
        """Offers jobs as they come, and yields each answer, with its offer's place in the order, when it is there.

        For sources without an end. Ending the iteration ends it.
        """
        arrived: SimpleQueue[list[Answer]] = SimpleQueue()
        pump = Pump(self._channels, arrived.put)
        pump.start()
        offered = taken = 0
        try:
            for submit in submits:
                pump.offer(self._offer_of_many(submit))
                offered += 1
                for batch in _arrived(arrived, wait=offered - taken >= WINDOW):
                    taken += len(batch)
                    yield from batch
            pump.end()
            while taken < offered:
                batch = arrived.get()
                taken += len(batch)
                yield from batch
        finally:
            pump.close()

    def get_job(self, queue: str, key: str) -> Job | None:
        """The outstanding job of a key, with its payload; None when the key is free."""
        return self._do(_calls.get_job(queue, key))

    def list_jobs(self, queue: str, *, key_prefix: str = "", page_size: int = 0, page_token: str = "") -> Page[Job]:
        """A page of a queue's outstanding jobs, without payloads."""
        return self._do(_calls.list_jobs(queue, key_prefix, page_size, page_token))

    def watch_jobs(self, queue: str, key: str = "") -> Generator[Job, None, None]:
        """Yields jobs of a queue, or of one key, as their states change."""
        watch = Watch(self._channels, queue, key)
        try:
            yield from watch.jobs()
        finally:
            watch.close()

    def cancel_job(self, queue: str, key: str, *, job_id: str = "") -> Job:
        """Ends the outstanding job of a key; with a `job_id` only if it is that one."""
        return self._do(_calls.cancel_job(queue, key, job_id))

    def list_dead_jobs(self, queue: str, *, key: str = "", page_size: int = 0, page_token: str = "") -> Page[DeadJob]:
        """A page of a queue's dead letters, oldest first; `key` narrows it to one key."""
        return self._do(_calls.list_dead_jobs(queue, key, page_size, page_token))

    def dead_jobs(self, queue: str, *, key: str = "", page_size: int = 0) -> Generator[DeadJob, None, None]:
        """Yields all of a queue's dead letters, oldest first, and reads them page by page."""
        yield from _paged(lambda token: self.list_dead_jobs(queue, key=key, page_size=page_size, page_token=token))

    def redrive_dead_jobs(self, queue: str, dead_ids: Iterable[int]) -> list[Redriven]:
        """Submits these dead letters again, with attempts counted from 1.

        Repeating it is safe: one that was redriven is no dead letter any more.
        """
        ids = list(dead_ids)
        # To the server no ids would mean the oldest.
        return self._do(_calls.redrive_dead_jobs(queue, ids)) if ids else []

    def redrive_oldest_dead_jobs(self, queue: str, max_jobs: int = 100) -> list[Redriven]:
        """As `redrive_dead_jobs`, for the oldest: so many, at most 1,000."""
        # To the server no number would mean its own.
        return self._do(_calls.redrive_oldest_dead_jobs(queue, max_jobs)) if max_jobs else []

    def delete_dead_jobs(self, queue: str, dead_ids: Iterable[int]) -> int:
        """Deletes these dead letters for good; tells how many there were."""
        ids = list(dead_ids)
        return self._do(_calls.delete_dead_jobs(queue, ids, False)) if ids else 0

    def delete_all_dead_jobs(self, queue: str) -> int:
        """Deletes all dead letters of a queue for good; tells how many there were."""
        return self._do(_calls.delete_dead_jobs(queue, (), True))

    def pull(self, queue: str, *, max_jobs: int = 1, wait: Seconds | None = None, worker_id: str = "") -> list[Leased]:
        """Leases jobs without a stream; none when the wait (20 s) ended without one.

        The caller keeps the deadlines: extend with `heartbeat`, settle with `ack`.
        """
        return self._do(_calls.pull(queue, max_jobs, wait, worker_id))

    def heartbeat(self, tokens: Iterable[bytes]) -> list[LeaseExtension]:
        """Extends leases: one result for each token, in their order."""
        return self._do(_calls.heartbeat(tokens))

    def ack(self, settlements: Iterable[tuple[bytes, Outcome | None]]) -> list[Settled]:
        """Settles leases, each by its token and an outcome such as `Retry` (None completes).

        One result for each, in their order. Repeating it is safe.
        """
        return self._do(_calls.ack(settlements))

    def create_queue(self, name: str, config: QueueConfig | None = None) -> Queue:
        """Makes a queue; also when it is there already with this configuration."""
        return self._do(_calls.create_queue(name, config or QueueConfig()))

    def update_queue(self, name: str, config: QueueConfig) -> Queue:
        """Changes what is set in `config`, and nothing else."""
        return self._do(_calls.update_queue(name, config))

    def get_queue(self, name: str) -> Queue:
        """One queue with its counts."""
        return self._do(_calls.get_queue(name))

    def list_queues(self, *, page_size: int = 0, page_token: str = "") -> Page[Queue]:
        """A page of all queues, by name."""
        return self._do(_calls.list_queues(page_size, page_token))

    def queues(self, *, page_size: int = 0) -> Generator[Queue, None, None]:
        """Yields all queues, by name, and reads them page by page."""
        yield from _paged(lambda token: self.list_queues(page_size=page_size, page_token=token))

    def delete_queue(self, name: str, *, force: bool = False) -> None:
        """Deletes a queue; with `force` also when it holds jobs or dead letters."""
        self._do(_calls.delete_queue(name, force))

    def pause_queue(self, name: str) -> Queue:
        """Stops deliveries. Leases that are out go on; submits are accepted."""
        return self._do(_calls.pause_queue(name))

    def resume_queue(self, name: str) -> Queue:
        """Goes on with deliveries."""
        return self._do(_calls.resume_queue(name))

    def purge_queue(self, name: str) -> int:
        """Ends all outstanding jobs of a queue without running them; tells how many."""
        return self._do(_calls.purge_queue(name))

    def put_schedule(self, schedule: Schedule) -> Schedule:
        """Makes or replaces a schedule."""
        return self._do(_calls.put_schedule(schedule))

    def get_schedule(self, name: str) -> Schedule:
        """One schedule."""
        return self._do(_calls.get_schedule(name))

    def list_schedules(self, *, page_size: int = 0, page_token: str = "") -> Page[Schedule]:
        """A page of all schedules, by name."""
        return self._do(_calls.list_schedules(page_size, page_token))

    def delete_schedule(self, name: str) -> None:
        """Ends a schedule. Jobs that it submitted stay."""
        self._do(_calls.delete_schedule(name))

    def channel(self) -> grpc.Channel:
        """A new channel to the server in use, for the stubs of `keywork.raw`: every RPC and every field.

        It retries nothing, and is the caller's to close. Give `metadata` to each call.
        """
        return self._channels.options.connect(self._channels.place)

    def close(self) -> None:
        """Closes the connections; calls that are under way fail."""
        self._channels.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _do(self, call: Call[T]) -> T:
        if not call.repeat:
            return self._once(call)
        patience = Patience(self._channels, time.monotonic() + self._channels.options.submit_deadline)
        while True:
            patience.begin()
            try:
                return self._once(call, patience.deadline - time.monotonic())
            except CallError as error:
                pause = patience.after(error)
            time.sleep(pause)

    def _once(self, call: Call[T], limit: float | None = None) -> T:
        place, future = self._begin(call, limit)
        return self._finish(call, place, future)


def _around(interceptor: SubmitInterceptor, following: SubmitNext, submit: Submit) -> Submitted:
    return interceptor(submit, following)


def _paged(fetch: Callable[[str], Page[T]]) -> Iterator[T]:
    page = fetch("")
    while True:
        yield from page
        if not page.next_page_token:
            return
        page = fetch(page.next_page_token)


def _arrived(arrived: SimpleQueue[list[Answer]], *, wait: bool) -> Iterator[list[Answer]]:
    """The answers that are there; where there is no room for another offer, at least one batch of them."""
    if wait:
        yield arrived.get()
    try:
        while True:
            yield arrived.get_nowait()
    except Empty:
        return
