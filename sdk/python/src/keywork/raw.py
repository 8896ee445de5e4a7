"""The contract as generated from ``proto/keywork/v1``: every message and field, and plain stubs.

The hand-written types of this package cover daily work. What they leave out is reachable here, by way of a channel of
the client::

    async with client.channel() as channel:
        stub = raw.WorkQueueStub(channel)
        await stub.GetJob(raw.GetJobRequest(queue="q", key="k"), metadata=client.metadata)

The modules are also importable by their proto paths, such as ``keywork.v1.work_queue_pb2``. These types change with
the contract, which only grows.
"""

from typing import Any

from keywork.v1 import queue_admin_pb2_grpc, schedules_pb2_grpc, work_queue_pb2_grpc
from keywork.v1.job_pb2 import *  # noqa: F403
from keywork.v1.queue_admin_pb2 import *  # noqa: F403
from keywork.v1.queue_admin_pb2_grpc import QueueAdminServicer as QueueAdminServicer
from keywork.v1.schedules_pb2 import *  # noqa: F403
from keywork.v1.schedules_pb2_grpc import SchedulesServicer as SchedulesServicer
from keywork.v1.work_queue_pb2 import *  # noqa: F403
from keywork.v1.work_queue_pb2_grpc import WorkQueueServicer as WorkQueueServicer

# The generated stubs have no types, which a strict checker would hold against their callers.
QueueAdminStub: Any = queue_admin_pb2_grpc.QueueAdminStub
SchedulesStub: Any = schedules_pb2_grpc.SchedulesStub
WorkQueueStub: Any = work_queue_pb2_grpc.WorkQueueStub
