"""Watching jobs: a stream that only the server speaks on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import grpc

from keywork import errors
from keywork._calls import WORK_QUEUE
from keywork.job import Job, read_job
from keywork.v1 import work_queue_pb2 as pb

if TYPE_CHECKING:
    from keywork._connection import Channels


class Watch:
    """One stream of events."""

    def __init__(self, channels: Channels, queue: str, key: str) -> None:
        method = channels.method(WORK_QUEUE + "WatchJobs", "unary_stream", pb.WatchJobsRequest, pb.WatchJobsResponse)
        request = pb.WatchJobsRequest(queue=queue, key=key)
        self._call: Any = method(request, metadata=channels.options.metadata)

    def jobs(self) -> Iterator[Job]:
        """Each job whose state changed; blocks until there is one."""
        try:
            for message in self._call:
                yield from map(read_job, message.jobs)
        except grpc.RpcError as error:
            raise errors.of_rpc(error) from None

    def start(self, put: Callable[[Job | errors.CallError | None], None]) -> None:
        """Reads on a thread of its own; None says that the stream has ended."""
        threading.Thread(target=self._read, args=(put,), name="keywork-watch", daemon=True).start()

    def _read(self, put: Callable[[Job | errors.CallError | None], None]) -> None:
        end: errors.CallError | None = None
        try:
            for job in self.jobs():
                put(job)
        except errors.CallError as error:
            end = error
        put(end)

    def close(self) -> None:
        """Ends it."""
        self._call.cancel()
