"""Every unary call of the client, as data: what is asked, and how the answer is read.

The async and the sync client carry the same calls out. Nothing here talks to a server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from keywork import _fields, _wire, errors, job, leases, queues, reasons, schedules, submit
from keywork.queues import Page
from keywork.v1 import queue_admin_pb2 as admin
from keywork.v1 import schedules_pb2 as sched
from keywork.v1 import work_queue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from keywork._wire import Seconds
    from keywork.outcomes import Outcome

T = TypeVar("T")

WORK_QUEUE = "/keywork.v1.WorkQueue/"
ADMIN = "/keywork.v1.QueueAdmin/"
SCHEDULES = "/keywork.v1.Schedules/"


@dataclass(slots=True)
class Call(Generic[T]):
    """One call."""

    path: str
    request: Any
    response: type[Any]
    read: Callable[[Any], T]
    #: It is tried again while servers are away.
    repeat: bool = False
    #: More time than other calls have, in seconds.
    extra_time: float = 0.0
    #: An error that is an answer.
    on_error: Callable[[errors.CallError], T] | None = None


def submit_one(offer: submit.Offer) -> Call[job.Submitted]:
    return Call(
        WORK_QUEUE + "Submit",
        offer.request,
        pb.SubmitResponse,
        lambda answer: job.read_submitted(answer, offer.own_id),
        repeat=True,
    )


def submit_batch(
    offers: Sequence[submit.Offer | errors.CallError],
) -> Call[list[job.Submitted | errors.CallError]]:
    def read(answer: pb.SubmitBatchResponse) -> list[job.Submitted | errors.CallError]:
        results = iter(answer.results)
        return [
            offer if isinstance(offer, errors.CallError) else job.read_result(next(results, None), offer.own_id)
            for offer in offers
        ]

    good = [offer.request for offer in offers if isinstance(offer, submit.Offer)]
    request = pb.SubmitBatchRequest(items=good)
    return Call(WORK_QUEUE + "SubmitBatch", request, pb.SubmitBatchResponse, read, repeat=True)


def get_job(queue: str, key: str) -> Call[job.Job | None]:
    def free(error: errors.CallError) -> None:
        if error.reason != reasons.JOB_NOT_FOUND:
            raise error

    request = _fields.message(pb.GetJobRequest, queue=queue, key=key)
    return Call(
        WORK_QUEUE + "GetJob",
        request,
        pb.GetJobResponse,
        lambda answer: job.read_job(answer.job),
        on_error=free,
    )


def list_jobs(queue: str, key_prefix: str, page_size: int, page_token: str) -> Call[Page[job.Job]]:
    request = _fields.message(
        pb.ListJobsRequest, queue=queue, key_prefix=key_prefix, page_size=page_size, page_token=page_token
    )
    return Call(
        WORK_QUEUE + "ListJobs",
        request,
        pb.ListJobsResponse,
        lambda answer: Page([job.read_job(one) for one in answer.jobs], answer.next_page_token),
    )


def cancel_job(queue: str, key: str, job_id: str) -> Call[job.Job]:
    request = _fields.message(pb.CancelJobRequest, queue=queue, key=key, job_id=job_id)
    return Call(WORK_QUEUE + "CancelJob", request, pb.CancelJobResponse, lambda answer: job.read_job(answer.job))


def list_dead_jobs(queue: str, key: str, page_size: int, page_token: str) -> Call[Page[job.DeadJob]]:
    request = _fields.message(pb.ListDeadJobsRequest, queue=queue, key=key, page_size=page_size, page_token=page_token)
    return Call(
        WORK_QUEUE + "ListDeadJobs",
        request,
        pb.ListDeadJobsResponse,
        lambda answer: Page([job.read_dead(dead) for dead in answer.jobs], answer.next_page_token),
    )


@dataclass(slots=True)
class Redriven:
    """How one redrive ended."""

    #: The dead letter.
    dead_id: int
    #: Created: the job runs again and the dead letter is gone. Already outstanding: the key is busy and the dead
    #: letter stays. An error: it was refused.
    result: job.Submitted | errors.CallError


def redrive_dead_jobs(queue: str, dead_ids: Iterable[int]) -> Call[list[Redriven]]:
    return _redrive(_fields.message(pb.RedriveDeadJobsRequest, queue=queue, dead_ids=dead_ids))


def redrive_oldest_dead_jobs(queue: str, max_jobs: int) -> Call[list[Redriven]]:
    return _redrive(_fields.message(pb.RedriveDeadJobsRequest, queue=queue, max_jobs=max_jobs))


def _redrive(request: pb.RedriveDeadJobsRequest) -> Call[list[Redriven]]:
    return Call(
        WORK_QUEUE + "RedriveDeadJobs",
        request,
        pb.RedriveDeadJobsResponse,
        lambda answer: [Redriven(one.dead_id, job.read_result(one.result, False)) for one in answer.results],
    )


def delete_dead_jobs(queue: str, dead_ids: Iterable[int], all_of_them: bool) -> Call[int]:
    request = _fields.message(pb.DeleteDeadJobsRequest, queue=queue, dead_ids=dead_ids, all=all_of_them)
    return Call(WORK_QUEUE + "DeleteDeadJobs", request, pb.DeleteDeadJobsResponse, lambda answer: int(answer.deleted))


def pull(queue: str, max_jobs: int, wait: Seconds | None, worker_id: str) -> Call[list[leases.Leased]]:
    request = _fields.message(pb.PullRequest, queue=queue, max_jobs=max_jobs, worker_id=worker_id)
    if wait is not None:
        request.wait.CopyFrom(_fields.duration("wait", wait))
    return Call(
        WORK_QUEUE + "Pull",
        request,
        pb.PullResponse,
        lambda answer: [leases.read_leased(delivery) for delivery in answer.deliveries],
        extra_time=20.0 if wait is None else _wire.seconds(wait),
    )


def heartbeat(tokens: Iterable[bytes]) -> Call[list[leases.LeaseExtension]]:
    request = _fields.message(pb.HeartbeatRequest, lease_tokens=tokens)
    return Call(
        WORK_QUEUE + "Heartbeat",
        request,
        pb.HeartbeatResponse,
        lambda answer: [leases.read_extension(one) for one in answer.results],
    )


def ack(settlements: Iterable[tuple[bytes, Outcome | None]]) -> Call[list[leases.Settled]]:
    request = _fields.message(pb.AckRequest, settlements=[leases.to_settlement(*one) for one in settlements])
    return Call(
        WORK_QUEUE + "Ack",
        request,
        pb.AckResponse,
        lambda answer: [leases.read_settled(one) for one in answer.results],
    )


def create_queue(name: str, config: queues.QueueConfig) -> Call[queues.Queue]:
    request = _fields.message(admin.CreateQueueRequest, name=name, config=queues.config_to_wire(config))
    return _queue("CreateQueue", request, admin.CreateQueueResponse)


def update_queue(name: str, config: queues.QueueConfig) -> Call[queues.Queue]:
    return _queue("UpdateQueue", queues.update_request(name, config), admin.UpdateQueueResponse)


def get_queue(name: str) -> Call[queues.Queue]:
    return _queue("GetQueue", _fields.message(admin.GetQueueRequest, name=name), admin.GetQueueResponse)


def pause_queue(name: str) -> Call[queues.Queue]:
    return _queue("PauseQueue", _fields.message(admin.PauseQueueRequest, name=name), admin.PauseQueueResponse)


def resume_queue(name: str) -> Call[queues.Queue]:
    return _queue("ResumeQueue", _fields.message(admin.ResumeQueueRequest, name=name), admin.ResumeQueueResponse)


def _queue(method: str, request: Any, response: type[Any]) -> Call[queues.Queue]:
    return Call(ADMIN + method, request, response, lambda answer: queues.read_queue(answer.queue))


def list_queues(page_size: int, page_token: str) -> Call[Page[queues.Queue]]:
    request = _fields.message(admin.ListQueuesRequest, page_size=page_size, page_token=page_token)
    return Call(
        ADMIN + "ListQueues",
        request,
        admin.ListQueuesResponse,
        lambda answer: Page([queues.read_queue(one) for one in answer.queues], answer.next_page_token),
    )


def delete_queue(name: str, force: bool) -> Call[None]:
    request = _fields.message(admin.DeleteQueueRequest, name=name, force=force)
    return Call(ADMIN + "DeleteQueue", request, admin.DeleteQueueResponse, lambda _: None)


def purge_queue(name: str) -> Call[int]:
    request = _fields.message(admin.PurgeQueueRequest, name=name)
    return Call(ADMIN + "PurgeQueue", request, admin.PurgeQueueResponse, lambda answer: int(answer.purged))


def put_schedule(schedule: schedules.Schedule) -> Call[schedules.Schedule]:
    request = _fields.message(sched.PutScheduleRequest, schedule=schedules.schedule_to_wire(schedule))
    return _schedule("PutSchedule", request, sched.PutScheduleResponse)


def get_schedule(name: str) -> Call[schedules.Schedule]:
    return _schedule("GetSchedule", _fields.message(sched.GetScheduleRequest, name=name), sched.GetScheduleResponse)


def _schedule(method: str, request: Any, response: type[Any]) -> Call[schedules.Schedule]:
    return Call(SCHEDULES + method, request, response, lambda answer: schedules.read_schedule(answer.schedule))


def list_schedules(page_size: int, page_token: str) -> Call[Page[schedules.Schedule]]:
    request = _fields.message(sched.ListSchedulesRequest, page_size=page_size, page_token=page_token)
    return Call(
        SCHEDULES + "ListSchedules",
        request,
        sched.ListSchedulesResponse,
        lambda answer: Page([schedules.read_schedule(s) for s in answer.schedules], answer.next_page_token),
    )


def delete_schedule(name: str) -> Call[None]:
    request = _fields.message(sched.DeleteScheduleRequest, name=name)
    return Call(SCHEDULES + "DeleteSchedule", request, sched.DeleteScheduleResponse, lambda _: None)
