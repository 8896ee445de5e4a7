"""The fake server's services: each RPC calls the state, and converts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

import grpc

from keywork import reasons
from keywork._wire import from_duration, to_duration
from keywork.raw import QueueAdminServicer, WorkQueueServicer
from keywork.testing import _sessions
from keywork.testing._state import Broken, QueueState, State
from keywork.testing._status import Refused, Status, bad_field, outage, refusal
from keywork.v1 import queue_admin_pb2 as admin
from keywork.v1 import work_queue_pb2 as pb

T = TypeVar("T")


class Fake:
    """The state, its lock, and the bell that rings at every change of it."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.changed = threading.Condition()
        self._stopped = False

    def change(self, change: Callable[[State], T]) -> T:
        """Changes the state and hands out what became ready by it."""
        with self.changed:
            try:
                return change(self.state)
            finally:
                self.state.dispatch()
                self.changed.notify_all()

    def keep_time(self) -> None:
        """Looks at the clock whenever something is due; to be run by a thread."""
        with self.changed:
            while not self._stopped:
                if self.state.next_due <= time.monotonic():
                    self.state.on_time()
                    self.state.dispatch()
                    self.changed.notify_all()
                left = self.state.next_due - time.monotonic()
                self.changed.wait(min(max(0.0, left), 3_600.0))

    def stop(self) -> None:
        """Ends the keeper of time and every session."""
        with self.changed:
            self._stopped = True
            self.state.script.silent = False
            _sessions.end_all(self.state, None)
            self.changed.notify_all()


class _Answering:
    """What both services have in common."""

    def __init__(self, fake: Fake) -> None:
        self._fake = fake

    def _answer(self, context: Any, change: Callable[[State], T]) -> T:
        try:
            return self._fake.change(change)
        except Refused as refused:
            refused.status.abort(context)
        except Broken:
            outage("unknown").status.abort(context)
        raise AssertionError("an abort raises")


class WorkQueue(_Answering, WorkQueueServicer):
    """``keywork.v1.WorkQueue``."""

    def Submit(self, request: pb.SubmitRequest, context: Any) -> pb.SubmitResponse:
        return self._answer(context, lambda state: state.submit(request))

    def SubmitBatch(self, request: pb.SubmitBatchRequest, context: Any) -> pb.SubmitBatchResponse:
        results = self._answer(context, lambda state: [state.submit_of_many(item) for item in request.items])
        return pb.SubmitBatchResponse(results=results)

    def SubmitStream(self, requests: Any, context: Any) -> Iterator[pb.SubmitStreamResponse]:
        for message in requests:
            results, broken = self._fake.change(partial(_offers, offers=message.offers))
            yield pb.SubmitStreamResponse(results=results)
            if broken:
                return

    def Lease(self, requests: Any, context: Any) -> Iterator[pb.LeaseResponse]:
        refused = self._fake.change(_next_refusal)
        if refused is not None:
            refused.abort(context)
        context.send_initial_metadata(())
        outbound: SimpleQueue[Any] = SimpleQueue()
        context.add_callback(lambda: outbound.put(None))
        reading = threading.Thread(
            target=self._read, args=(requests, dict(context.invocation_metadata()), outbound.put), daemon=True
        )
        reading.start()
        while (item := outbound.get()) is not None:
            if isinstance(item, Status):
                item.abort(context)
            yield item

    def _read(self, requests: Any, headers: dict[str, Any], send: Callable[[Any], None]) -> None:
        number: int | None = None
        try:
            for message in requests:
                if number is not None:
                    self._fake.change(partial(_sessions.on_message, number=number, message=message))
                elif message.WhichOneof("message") == "hello":
                    number = self._fake.change(
                        partial(_sessions.hello, hello=message.hello, headers=headers, send=send)
                    )
                else:
                    send(bad_field("hello", "comes first").status)
                    return
        except grpc.RpcError:
            # The worker has gone; an exception is how gRPC says so.
            pass
        except Exception as error:
            if type(error) is not Exception:
                raise
        finally:
            if number is not None:
                self._fake.change(lambda state: _sessions.close(state, number))
            send(None)

    def Pull(self, request: pb.PullRequest, context: Any) -> pb.PullResponse:
        wait = from_duration(request.wait) if request.HasField("wait") else 20.0
        deadline = time.monotonic() + wait
        most = request.max_jobs or 1
        fake = self._fake
        with fake.changed:
            while True:
                deliveries = fake.state.lease([request.queue], most, None, request.worker_id)
                left = deadline - time.monotonic()
                if deliveries or left <= 0 or not context.is_active():
                    return pb.PullResponse(deliveries=deliveries)
                fake.changed.wait(left)

    def Heartbeat(self, request: pb.HeartbeatRequest, context: Any) -> pb.HeartbeatResponse:
        def extend(state: State) -> list[pb.HeartbeatResult]:
            return [_extended(state, token) for token in request.lease_tokens]

        return pb.HeartbeatResponse(results=self._answer(context, extend))

    def Ack(self, request: pb.AckRequest, context: Any) -> pb.AckResponse:
        results = self._answer(context, lambda state: [state.settle(one) for one in request.settlements])
        return pb.AckResponse(results=results)

    def GetJob(self, request: pb.GetJobRequest, context: Any) -> pb.GetJobResponse:
        def get(state: State) -> pb.GetJobResponse:
            entry = state.entry(request.queue, request.key)
            if entry is None:
                code = grpc.StatusCode.NOT_FOUND
                raise refusal(code, reasons.JOB_NOT_FOUND, "the key has no outstanding job")
            return pb.GetJobResponse(job=entry.job)

        return self._answer(context, get)

    def ListDeadJobs(self, request: pb.ListDeadJobsRequest, context: Any) -> pb.ListDeadJobsResponse:
        def dead(state: State) -> pb.ListDeadJobsResponse:
            jobs = state.queue(request.queue).dead.values()
            return pb.ListDeadJobsResponse(jobs=[d for d in jobs if request.key in ("", d.job.key)])

        return self._answer(context, dead)

    def RedriveDeadJobs(self, request: pb.RedriveDeadJobsRequest, context: Any) -> Any:
        results = self._answer(context, lambda state: state.redrive(request))
        return pb.RedriveDeadJobsResponse(results=results)

    def DeleteDeadJobs(self, request: pb.DeleteDeadJobsRequest, context: Any) -> Any:
        def delete(state: State) -> int:
            dead = state.queue(request.queue).dead
            ids = list(dead) if request.all else [number for number in request.dead_ids if number in dead]
            for number in ids:
                del dead[number]
            return len(ids)

        return pb.DeleteDeadJobsResponse(deleted=self._answer(context, delete))

    def _not_served(self, request: Any, context: Any) -> Any:
        code = grpc.StatusCode.UNIMPLEMENTED
        Status(code, "not served yet", reasons.NOT_SERVED_YET).abort(context)

    ListJobs = CancelJob = WatchJobs = _not_served


class QueueAdmin(_Answering, QueueAdminServicer):
    """``keywork.v1.QueueAdmin``."""

    def CreateQueue(self, request: admin.CreateQueueRequest, context: Any) -> admin.CreateQueueResponse:
        def create(state: State) -> admin.Queue:
            queue = state.queues.setdefault(request.name, QueueState(config=request.config))
            if queue.config != request.config:
                text = "the queue is there with another configuration"
                raise refusal(grpc.StatusCode.ALREADY_EXISTS, reasons.QUEUE_EXISTS, text)
            return state.describe(request.name)

        return admin.CreateQueueResponse(queue=self._answer(context, create))

    def UpdateQueue(self, request: admin.UpdateQueueRequest, context: Any) -> admin.UpdateQueueResponse:
        def update(state: State) -> admin.Queue:
            # A mask replaces whole fields, durations too.
            config = state.queue(request.name).config
            for path in request.update_mask.paths:
                config.ClearField(path)
            request.update_mask.MergeMessage(request.config, config)
            return state.describe(request.name)

        return admin.UpdateQueueResponse(queue=self._answer(context, update))

    def GetQueue(self, request: admin.GetQueueRequest, context: Any) -> admin.GetQueueResponse:
        return admin.GetQueueResponse(queue=self._answer(context, lambda state: state.describe(request.name)))

    def ListQueues(self, request: admin.ListQueuesRequest, context: Any) -> admin.ListQueuesResponse:
        def every(state: State) -> list[admin.Queue]:
            return [state.describe(name) for name in sorted(state.queues)]

        return admin.ListQueuesResponse(queues=self._answer(context, every))

    def DeleteQueue(self, request: admin.DeleteQueueRequest, context: Any) -> admin.DeleteQueueResponse:
        def delete(state: State) -> None:
            queue = state.queue(request.name)
            if not request.force and (queue.jobs or queue.dead):
                code = grpc.StatusCode.FAILED_PRECONDITION
                raise refusal(code, reasons.QUEUE_NOT_EMPTY, "the queue is not empty")
            state.purge(request.name)
            del state.queues[request.name]

        self._answer(context, delete)
        return admin.DeleteQueueResponse()

    def PauseQueue(self, request: admin.PauseQueueRequest, context: Any) -> admin.PauseQueueResponse:
        return admin.PauseQueueResponse(queue=self._answer(context, lambda s: _paused(s, request.name, True)))

    def ResumeQueue(self, request: admin.ResumeQueueRequest, context: Any) -> admin.ResumeQueueResponse:
        return admin.ResumeQueueResponse(queue=self._answer(context, lambda s: _paused(s, request.name, False)))

    def PurgeQueue(self, request: admin.PurgeQueueRequest, context: Any) -> admin.PurgeQueueResponse:
        return admin.PurgeQueueResponse(purged=self._answer(context, lambda state: state.purge(request.name)))


def _next_refusal(state: State) -> Status | None:
    refusals = state.script.refuse_sessions
    return refusals.popleft() if refusals else None


def _offers(state: State, offers: Any) -> tuple[list[pb.SubmitOfferResult], bool]:
    """The results up to the first offer that breaks the stream."""
    results: list[pb.SubmitOfferResult] = []
    for offer in offers:
        try:
            result = state.submit_of_many(offer.submit)
        except Broken:
            return results, True
        results.append(pb.SubmitOfferResult(correlation_id=offer.correlation_id, result=result))
    return results, False


def _extended(state: State, token: bytes) -> pb.HeartbeatResult:
    if state.extend(token):
        left = to_duration(state.options.lease_duration)
        return pb.HeartbeatResult(lease_token=token, time_left=left)
    return pb.HeartbeatResult(lease_token=token, lost=pb.LOST_REASON_EXPIRED)


def _paused(state: State, name: str, paused: bool) -> admin.Queue:
    state.queue(name).paused = paused
    return state.describe(name)
