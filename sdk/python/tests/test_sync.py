"""The twin for programs without an event loop does the same."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest
from support import Log

from keywork import (
    CallError,
    CancelReason,
    Context,
    InvalidArgumentError,
    Job,
    Retry,
    SettledOutcome,
    Submit,
    SubmitOutcome,
    Submitted,
    UnavailableError,
    UnimplementedError,
    WorkerForcedError,
    WorkerRefusedError,
    raw,
    sync,
)
from keywork.errors import StatusCode
from keywork.testing import FakeServer, Status, SubmitFault


@pytest.fixture
def client(server: FakeServer) -> Iterator[sync.Client]:
    with server.sync_client() as client:
        yield client


def nothing(context: Context, job: Job) -> None:
    """Completes."""


def test_a_job_goes_from_its_submit_to_its_end(server: FakeServer, client: sync.Client) -> None:
    seen: Log[Job] = Log()
    assert client.submit("q", "a", "v1").outcome is SubmitOutcome.CREATED
    assert client.submit("q", "a").outcome is SubmitOutcome.ALREADY_OUTSTANDING
    with sync.Worker(client, "q", lambda context, job: seen.add(job)) as worker:
        server.wait_until("the end", lambda seen: seen.settled("complete") == ["a"])
    [job] = seen.all()
    assert (job.key, job.payload, job.attempt) == ("a", b"v1", 1)
    assert worker.counts().settled == 1
    assert client.get_job("q", "a") is None


def test_a_submit_is_tried_again_with_the_same_id(server: FakeServer, client: sync.Client) -> None:
    with server.script() as script:
        script.submit_faults.extend([SubmitFault.UNAVAILABLE, SubmitFault.ANSWER_LOST])
    assert client.submit("q", "a").outcome is SubmitOutcome.CREATED
    assert len(set(server.seen().submits)) == 1
    with pytest.raises(InvalidArgumentError):
        client.submit("q", "")


def test_many_submits_are_answered_in_their_order(server: FakeServer, client: sync.Client) -> None:
    with server.script() as script:
        script.submit_faults.extend([SubmitFault.BROKEN, SubmitFault.UNAVAILABLE])
    assert client.submit_many([]) == []
    keys = [f"key-{number}" for number in range(9_000)]
    results = client.submit_many(Submit("q", key) for key in keys)
    assert [result.job.key for result in results if isinstance(result, Submitted)] == keys
    batch = client.submit_batch([Submit("q", "new"), Submit("q", "")])
    assert isinstance(batch[0], Submitted)
    assert isinstance(batch[1], CallError)


def test_an_endless_stream_is_answered_as_it_goes(client: sync.Client) -> None:
    def endless() -> Iterator[Submit]:
        number = 0
        while True:
            yield Submit("q", f"key-{number}")
            number += 1

    seen = 0
    for _, result in client.submit_stream(endless()):
        assert isinstance(result, Submitted)
        seen += 1
        if seen == 5_000:
            break
    assert seen == 5_000


def test_no_server_at_all_is_an_error() -> None:
    with sync.Client("http://127.0.0.1:1", submit_deadline=0.2) as client:
        with pytest.raises(UnavailableError):
            client.submit("q", "a")
        [result] = client.submit_many([Submit("q", "a")])
        assert isinstance(result, UnavailableError)


def test_interceptors_wrap_handlers_and_submits(server: FakeServer) -> None:
    log: Log[str] = Log()

    def submitting(submit: Submit, following: sync.SubmitNext) -> Submitted:
        log.add("submit")
        return following(submit)

    def handling(context: Context, job: Job, following: sync.Next) -> object:
        log.add("before")
        result = following(context, job)
        log.add("after")
        return result

    with server.sync_client(interceptors=[submitting]) as client:
        client.submit("q", "a")
        with sync.Worker(client, ["q"], nothing, interceptors=[handling]):
            server.wait_until("the end", lambda seen: seen.settled("complete") == ["a"])
    assert log.all() == ["submit", "before", "after"]


def test_an_async_handler_is_refused(client: sync.Client) -> None:
    async def handler(context: Context, job: Job) -> None: ...

    with pytest.raises(TypeError, match=r"keywork\.Worker"):
        sync.Worker(client, ["q"], handler)


def test_the_ends_of_a_handler(server: FakeServer, client: sync.Client) -> None:
    def once(context: Context, job: Job) -> None:
        if job.attempt == 1:
            raise Retry(0.01, "later")
        if job.attempt == 2:
            raise SystemExit(3)

    client.submit("q", "a")
    with sync.Worker(client, ["q"], once):
        seen = server.wait_until("the end", lambda seen: seen.settled("complete") == ["a"])
    assert [one.error for one in seen.settlements] == ["later", "SystemExit: 3", ""]


def test_a_refusal_is_raised(server: FakeServer, client: sync.Client) -> None:
    with server.script() as script:
        script.refuse_sessions.append(Status(StatusCode.PERMISSION_DENIED, "no"))
    with pytest.raises(WorkerRefusedError):
        sync.Worker(client, ["q"], nothing).run_until()


def test_an_event_that_is_set_drains(client: sync.Client) -> None:
    stop = threading.Event()
    stop.set()
    worker = sync.Worker(client, ["q"], nothing)
    worker.run_until(stop)
    with pytest.raises(RuntimeError, match="started before"):
        worker.run_until()


def test_signals_drain_and_then_release(server: FakeServer, client: sync.Client) -> None:
    reasons: Log[CancelReason | None] = Log()

    def waits(context: Context, job: Job) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        server.wait_until("the drain", lambda seen: seen.drains == 1)
        os.kill(os.getpid(), signal.SIGINT)
        context.wait(20)
        reasons.add(context.reason)
        context.raise_if_cancelled()

    client.submit("q", "a")
    with pytest.raises(WorkerForcedError):
        sync.Worker(client, ["q"], waits).run()
    assert reasons.all() == [CancelReason.WORKER_SHUTDOWN]
    assert server.seen().settled("release") == ["a"]


def test_a_signal_is_heard_while_nothing_else_happens(server: FakeServer, client: sync.Client) -> None:
    def elsewhere() -> None:
        server.wait_until("a session", lambda seen: seen.sessions == 1)
        # Given to this thread, it does not interrupt the wait of the main one.
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    threading.Thread(target=elsewhere).start()
    sync.Worker(client, "q", nothing).run()
    assert server.seen().drains == 1


def test_an_interrupt_where_signals_are_the_callers_releases_the_jobs(server: FakeServer, client: sync.Client) -> None:
    def waits(context: Context, job: Job) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        context.wait(20)
        context.raise_if_cancelled()

    client.submit("q", "a")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            sync.Worker(client, "q", waits).run_until()
    finally:
        signal.signal(signal.SIGINT, before)
    assert server.seen().settled("release") == ["a"], "before it is raised"


def test_a_worker_that_does_not_run_cannot_be_waited_for(client: sync.Client) -> None:
    with pytest.raises(RuntimeError, match="not been started"):
        sync.Worker(client, "q", nothing).wait(1)


def test_leases_queues_and_dead_letters(client: sync.Client) -> None:
    client.create_queue("q")
    client.submit("q", "a")
    [leased] = client.pull("q", wait=1)
    assert client.heartbeat([leased.token])[0].extended
    assert client.ack([(leased.token, Retry(0))])[0].outcome is SettledOutcome.SETTLED
    assert client.get_queue("q").stats.outstanding == 1
    assert [queue.name for queue in client.list_queues()] == ["q"]
    assert not client.list_dead_jobs("q").items
    assert client.purge_queue("q") == 1
    client.delete_queue("q")
    with pytest.raises(UnimplementedError):
        client.cancel_job("q", "a")
    with pytest.raises(UnimplementedError):
        list(client.watch_jobs("q"))
    with client.channel() as channel:
        stub = raw.QueueAdminStub(channel)
        assert not stub.ListQueues(raw.ListQueuesRequest(), metadata=client.metadata).queues


def test_a_client_that_was_made_before_a_fork_works_after_it(server: FakeServer) -> None:
    """Made, but not used: then nothing of gRPC's is there yet to be harmed. In a process of its own."""
    import subprocess
    import sys

    program = f"""
import os, sys
from keywork import sync
client = sync.Client({server.endpoint!r})
children = [os.fork() for _ in range(1)]
if children == [0]:
    sys.exit(0 if client.submit("q", "child").accepted else 1)
_, status = os.waitpid(children[0], 0)
assert os.waitstatus_to_exitcode(status) == 0
assert client.submit("q", "parent").accepted
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=30)
    assert server.outstanding("q", "child") is not None
    assert server.outstanding("q", "parent") is not None
