"""The fake server's memory: queues, jobs, leases, and the rules of the contract over them.

Everything happens under one lock, which the caller holds, so that a test sees one order of events.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import grpc

from keywork import reasons
from keywork._wire import from_duration, to_duration
from keywork.leases import SettledOutcome
from keywork.testing._script import Script, Seen, SeenSettlement, SubmitFault
from keywork.testing._status import Refused, Status, bad_field, outage, refusal
from keywork.v1 import job_pb2
from keywork.v1 import queue_admin_pb2 as admin
from keywork.v1 import work_queue_pb2 as pb

#: Attempts of a job that does not say otherwise.
ATTEMPTS = 10


@dataclass
class Entry:
    """An outstanding job."""

    job: job_pb2.Job
    #: Not before then.
    due: float | None = None
    lease: bytes | None = None


@dataclass
class QueueState:
    """A queue."""

    config: admin.QueueConfig = field(default_factory=admin.QueueConfig)
    paused: bool = False
    jobs: dict[str, Entry] = field(default_factory=dict)
    ready: deque[str] = field(default_factory=deque)
    dead: dict[int, job_pb2.DeadJob] = field(default_factory=dict)
    #: Every job that was accepted, by its id.
    accepted: dict[str, job_pb2.Job] = field(default_factory=dict)


@dataclass
class Lease:
    """A lease that has not ended."""

    queue: str
    key: str
    deadline: float
    session: int | None
    worker_id: str


@dataclass
class SessionState:
    """A session that is open."""

    worker_id: str
    queues: list[str]
    capacity: int
    #: Takes messages, a `Status` to end with, or None to end with OK.
    send: Callable[[Any], None]
    draining: bool = False
    held: int = 0


@dataclass
class FakeOptions:
    """How leases are treated."""

    lease_duration: float
    disconnect_grace: float | None
    retry_delay: float


class State:
    """All of it."""

    def __init__(self, options: FakeOptions) -> None:
        self.options = options
        self.script = Script()
        self.seen = Seen()
        self.queues: dict[str, QueueState] = {}
        self.leases: dict[bytes, Lease] = {}
        #: Tokens whose job ended, or went on, by their settlement.
        self.settled: set[bytes] = set()
        self.sessions: dict[int, SessionState] = {}
        #: When the clock has to be looked at again.
        self.next_due = float("inf")
        self._serial = 0

    def number(self) -> int:
        """A number that grows: fencing numbers, sessions, dead letters."""
        self._serial += 1
        return self._serial

    def queue(self, name: str) -> QueueState:
        """A queue that must be there."""
        found = self.queues.get(name)
        if found is None:
            raise refusal(grpc.StatusCode.NOT_FOUND, reasons.QUEUE_NOT_FOUND, "there is no such queue")
        return found

    def entry(self, queue: str, key: str) -> Entry | None:
        """The outstanding job of a key."""
        found = self.queues.get(queue)
        return None if found is None else found.jobs.get(key)

    # ---- Submits

    def submit(self, request: pb.SubmitRequest) -> pb.SubmitResponse:
        """Offers one job, with the fault that the script has for it."""
        self.seen.submits.append(request.request_id)
        fault = self.script.submit_faults.popleft() if self.script.submit_faults else None
        if isinstance(fault, Status):
            raise Refused(fault)
        if fault is SubmitFault.UNAVAILABLE:
            raise outage("none")
        response = self._submit_truly(request)
        if fault is SubmitFault.ANSWER_LOST:
            raise outage("unknown")
        if fault is SubmitFault.BROKEN:
            raise Broken
        return response

    def submit_of_many(self, request: pb.SubmitRequest) -> pb.SubmitResult:
        """Offers one job of many."""
        try:
            return pb.SubmitResult(response=self.submit(request))
        except Refused as refused:
            return pb.SubmitResult(error=refused.status.item())

    def _submit_truly(self, request: pb.SubmitRequest) -> pb.SubmitResponse:
        if not request.queue:
            raise bad_field("queue", "must not be empty")
        if not 1 <= len(request.key.encode()) <= 512:
            raise bad_field("key", "must have 1 to 512 bytes")
        queue = self.queues.setdefault(request.queue, QueueState())
        known = queue.accepted.get(request.request_id)
        if known is not None:
            return _response(pb.SUBMIT_OUTCOME_DUPLICATE, known)
        entry = queue.jobs.get(request.key)
        if entry is None:
            return _response(pb.SUBMIT_OUTCOME_CREATED, self._accept(queue, request))
        if request.on_conflict == pb.ON_CONFLICT_FAIL:
            raise refusal(grpc.StatusCode.ALREADY_EXISTS, reasons.KEY_BUSY, "the key is busy")
        return _response(pb.SUBMIT_OUTCOME_ALREADY_OUTSTANDING, entry.job)

    def _accept(self, queue: QueueState, request: pb.SubmitRequest) -> job_pb2.Job:
        job = job_pb2.Job(
            id=request.request_id or str(uuid.uuid4()),
            queue=request.queue,
            key=request.key,
            payload=request.payload,
            content_type=request.content_type,
            attributes=request.attributes,
            state=job_pb2.JOB_STATE_QUEUED,
            attempt=1,
            max_attempts=request.max_attempts or ATTEMPTS,
        )
        job.submitted_at.GetCurrentTime()
        delay = _delay(request)
        queue.accepted[job.id] = job
        queue.jobs[job.key] = Entry(job, self._due(delay))
        queue.ready.append(job.key)
        return job

    def _due(self, delay: float | None) -> float | None:
        if delay is None:
            return None
        due = time.monotonic() + delay
        self.next_due = min(self.next_due, due)
        return due

    # ---- Time

    def on_time(self) -> None:
        """Ends the leases that ran out, and starts what was waiting for its time."""
        now = time.monotonic()
        for token in [token for token, lease in self.leases.items() if lease.deadline <= now]:
            self.seen.expired += 1
            lease = self.take_lease(token)
            self.retry(lease, None, "the lease ran out", job_pb2.DEAD_REASON_LEASE_EXPIRED)
            self._tell_lost(lease, token, pb.LOST_REASON_EXPIRED)
        entries = [entry for queue in self.queues.values() for entry in queue.jobs.values()]
        for entry in entries:
            if entry.due is not None and entry.due <= now:
                entry.due = None
        times = [lease.deadline for lease in self.leases.values()]
        times += [entry.due for entry in entries if entry.due is not None]
        self.next_due = min(times, default=float("inf"))

    # ---- Leases

    def dispatch(self) -> None:
        """Leases what is ready to the sessions that have room."""
        if self.script.silent:
            return
        for number, session in list(self.sessions.items()):
            room = session.capacity - session.held
            if session.draining or room <= 0:
                continue
            deliveries = self.lease(session.queues, room, number, session.worker_id)
            if deliveries:
                self.send(number, pb.LeaseResponse(deliveries=pb.Deliveries(deliveries=deliveries)))

    def lease(self, queues: Iterable[str], most: int, session: int | None, worker_id: str) -> list[pb.Delivery]:
        """Leases up to so many jobs."""
        deliveries: list[pb.Delivery] = []
        for name in queues:
            while len(deliveries) < most and (key := self._next_ready(name)) is not None:
                deliveries.append(self._lease_one(name, key, session, worker_id))
        return deliveries

    def _next_ready(self, name: str) -> str | None:
        queue = self.queues.get(name)
        if queue is None or queue.paused:
            return None
        for place, key in enumerate(queue.ready):
            entry = queue.jobs.get(key)
            if entry is not None and entry.due is None:
                del queue.ready[place]
                return key
        return None

    def _lease_one(self, queue: str, key: str, session: int | None, worker_id: str) -> pb.Delivery:
        fencing, duration = self.number(), self.options.lease_duration
        token = f"{queue}/{fencing}/{uuid.uuid4()}".encode()
        entry = self.queues[queue].jobs[key]
        entry.lease = token
        entry.job.state = job_pb2.JOB_STATE_LEASED
        entry.job.fencing_number = fencing
        entry.job.holder = worker_id
        self.seen.delivered.append(key)
        self.leases[token] = Lease(queue, key, time.monotonic() + duration, session, worker_id)
        self.next_due = min(self.next_due, time.monotonic() + duration)
        if session is not None:
            self.sessions[session].held += 1
        return pb.Delivery(
            lease_token=token,
            fencing_number=fencing,
            attempt=entry.job.attempt,
            job=entry.job,
            time_left=to_duration(duration),
        )

    def take_lease(self, token: bytes) -> Lease:
        """Ends a lease; its job is neither leased nor ready afterwards."""
        lease = self.leases.pop(token)
        if lease.session in self.sessions:
            self.sessions[lease.session].held -= 1
        entry = self.entry(lease.queue, lease.key)
        if entry is not None:
            entry.lease = None
            entry.job.holder = ""
            entry.job.state = job_pb2.JOB_STATE_QUEUED
        return lease

    def extend(self, token: bytes) -> bool:
        """Extends a lease. False: there is none."""
        lease = self.leases.get(token)
        if lease is None:
            return False
        lease.deadline = time.monotonic() + self.options.lease_duration
        return True

    def hand_back(self, token: bytes) -> None:
        """The job is ready again, before all others."""
        lease = self.take_lease(token)
        self.queues[lease.queue].ready.appendleft(lease.key)

    def lose_lease(self, queue: str, key: str, reason: int, tell: bool) -> None:
        """Takes a lease away from its holder."""
        entry = self.entry(queue, key)
        if entry is None or entry.lease is None:
            return
        token = entry.lease
        lease = self.take_lease(token)
        if reason == pb.LOST_REASON_CANCELLED:
            del self.queues[queue].jobs[key]
        else:
            self.queues[queue].ready.append(key)
        if tell:
            self._tell_lost(lease, token, reason)

    def _tell_lost(self, lease: Lease, token: bytes, reason: Any) -> None:
        if lease.session is not None:
            lost = pb.LeasesLost(leases=[pb.LostLease(lease_token=token, reason=reason)])
            self.send(lease.session, pb.LeaseResponse(leases_lost=lost))

    def send(self, session: int, message: Any) -> None:
        """Sends to a session, unless the script says silence."""
        if not self.script.silent and session in self.sessions:
            self.sessions[session].send(message)

    # ---- Settlements

    def settle(self, settlement: pb.Settlement) -> pb.SettlementResult:
        """Settles a lease and notes it."""
        lease = self.leases.get(settlement.lease_token)
        how = settlement.WhichOneof("outcome") or "none"
        error = getattr(settlement, how).error if how in ("retry", "fail") else ""
        answers = self.script.settlement_answers
        answer = answers.popleft() if answers else self._settle_truly(settlement)
        self.seen.settlements.append(SeenSettlement(lease.key if lease else "", how, error, answer))
        result = pb.SettlementResult(lease_token=settlement.lease_token, outcome=f"SETTLEMENT_OUTCOME_{answer.name}")
        if answer is SettledOutcome.REJECTED:
            code = grpc.StatusCode.UNIMPLEMENTED
            result.error.CopyFrom(Status(code, f"{how} is not served yet", reasons.NOT_SERVED_YET).item())
        return result

    def _settle_truly(self, settlement: pb.Settlement) -> SettledOutcome:
        token = settlement.lease_token
        how = settlement.WhichOneof("outcome")
        if how in (None, "rerun"):
            return SettledOutcome.REJECTED
        if token not in self.leases:
            return SettledOutcome.ALREADY_SETTLED if token in self.settled else SettledOutcome.LEASE_LOST
        self.settled.add(token)
        if how == "release":
            self.hand_back(token)
            return SettledOutcome.SETTLED
        lease = self.take_lease(token)
        if how == "retry":
            delay = from_duration(settlement.retry.delay) if settlement.retry.HasField("delay") else None
            self.retry(lease, delay, settlement.retry.error, job_pb2.DEAD_REASON_ATTEMPTS_EXHAUSTED)
        elif how == "fail":
            self._bury(lease, settlement.fail.error, job_pb2.DEAD_REASON_FAILED)
        else:
            del self.queues[lease.queue].jobs[lease.key]
        return SettledOutcome.SETTLED

    def retry(self, lease: Lease, delay: float | None, error: str, reason: Any) -> None:
        """An attempt has failed."""
        entry = self.entry(lease.queue, lease.key)
        if entry is None:
            return
        if entry.job.attempt >= entry.job.max_attempts:
            self._bury(lease, error, reason)
            return
        entry.job.attempt += 1
        entry.job.last_error = error
        entry.job.state = job_pb2.JOB_STATE_RETRYING
        entry.due = self._due(self.options.retry_delay if delay is None else delay)
        self.queues[lease.queue].ready.append(lease.key)

    def _bury(self, lease: Lease, error: str, reason: Any) -> None:
        queue, number = self.queues[lease.queue], self.number()
        entry = queue.jobs.pop(lease.key, None)
        if entry is None:
            return
        entry.job.last_error = error
        entry.job.state = job_pb2.JOB_STATE_DEAD
        dead = queue.dead[number] = job_pb2.DeadJob(dead_id=number, job=entry.job, reason=reason)
        dead.died_at.GetCurrentTime()

    # ---- Queues and dead letters

    def purge(self, name: str) -> int:
        """Ends all outstanding jobs of a queue; holders are told."""
        queue = self.queue(name)
        keys = list(queue.jobs)
        for key in keys:
            self.lose_lease(name, key, pb.LOST_REASON_CANCELLED, True)
        queue.jobs.clear()
        queue.ready.clear()
        return len(keys)

    def redrive(self, request: pb.RedriveDeadJobsRequest) -> list[pb.RedriveResult]:
        """Submits dead letters again."""
        dead = self.queue(request.queue).dead
        ids = list(request.dead_ids) or list(dead)[: request.max_jobs or 100]
        results: list[pb.RedriveResult] = []
        for number in ids:
            if number in dead:
                result = self.submit_of_many(_again(dead[number].job))
                if result.response.outcome == pb.SUBMIT_OUTCOME_CREATED:
                    del dead[number]
                results.append(pb.RedriveResult(dead_id=number, result=result))
        return results

    def describe(self, name: str) -> admin.Queue:
        """A queue as the wire has it."""
        queue = self.queue(name)
        stats = admin.QueueStats(
            outstanding=len(queue.jobs),
            ready=len(queue.ready),
            in_flight=max(0, len(queue.jobs) - len(queue.ready)),
            dead=len(queue.dead),
        )
        return admin.Queue(name=name, config=queue.config, paused=queue.paused, stats=stats, replicas=1)


class Broken(Exception):  # noqa: N818 - it never leaves the fake server.
    """The stream or the call breaks."""


def _response(outcome: Any, job: job_pb2.Job) -> pb.SubmitResponse:
    """The outcome, naming the job without its payload."""
    response = pb.SubmitResponse(outcome=outcome, job=job)
    response.job.payload = b""
    return response


def _delay(request: pb.SubmitRequest) -> float | None:
    if request.HasField("delay"):
        return from_duration(request.delay)
    if request.HasField("start_at"):
        left = request.start_at.ToDatetime(timezone.utc) - datetime.now(timezone.utc)
        return max(0.0, left.total_seconds())
    return None


def _again(job: job_pb2.Job) -> pb.SubmitRequest:
    return pb.SubmitRequest(
        queue=job.queue,
        key=job.key,
        payload=job.payload,
        content_type=job.content_type,
        attributes=job.attributes,
        max_attempts=job.max_attempts,
    )
