"""A worker keeps its session whatever the server does, and stops only when it must."""

from __future__ import annotations

from functools import partial

import pytest
from support import Scene, within

from keywork import CancelReason, StatusCode, Worker, WorkerRefusedError, WorkerSupersededError, events, reasons
from keywork._worker import link
from keywork.testing import Seen, Status


async def test_a_stream_that_ends_ok_is_opened_again_and_its_leases_are_claimed(scene: Scene) -> None:
    await scene.submit("a")
    async with scene.worker():
        await scene.until_started(1)
        scene.server.end_sessions()
        seen = await scene.server.until("a second session", lambda seen: len(seen.hellos) == 2)
        assert not seen.hellos[0].held_leases
        assert len(seen.hellos[1].held_leases) == 1, "the lease is claimed"
        assert seen.hellos[1].session_ticket == b"ticket-1", "with the newest ticket"
        assert seen.hellos[0].worker_id == seen.hellos[1].worker_id
        # It was extended last through the first session: how much time it has left is not to be counted on.
        await scene.server.until("a heartbeat at once", lambda seen: seen.heartbeats > 0)
        scene.open_gate()
        seen = await scene.server.until("the job to complete", lambda seen: seen.settled("complete") == ["a"])
        assert seen.delivered == ["a"], "it ran once"


async def test_every_status_that_is_no_refusal_means_reconnect(scene: Scene) -> None:
    codes = [
        StatusCode.UNAVAILABLE,
        StatusCode.UNKNOWN,
        StatusCode.CANCELLED,
        StatusCode.INTERNAL,
        StatusCode.RESOURCE_EXHAUSTED,
    ]
    async with scene.worker():
        for ended, code in enumerate(codes, 1):
            await scene.server.until("a session", partial(_is_session, ended))
            scene.server.end_sessions(Status(code, "gone"))
        await scene.server.until("a last session", lambda seen: len(seen.hellos) == len(codes) + 1)


def _is_session(number: int, seen: Seen) -> bool:
    return len(seen.hellos) == number and seen.sessions == 1


@pytest.mark.parametrize(
    "code",
    [
        StatusCode.INVALID_ARGUMENT,
        StatusCode.UNAUTHENTICATED,
        StatusCode.PERMISSION_DENIED,
        StatusCode.NOT_FOUND,
        StatusCode.UNIMPLEMENTED,
    ],
)
async def test_a_refusal_stops_the_worker_and_is_told(scene: Scene, code: StatusCode) -> None:
    with scene.server.script() as script:
        script.refuse_sessions.append(Status(code, "no"))
    with pytest.raises(WorkerRefusedError) as caught:
        await within("the worker to end", scene.worker().run_until())
    assert caught.value.error.code is code
    assert caught.value.__cause__ is caught.value.error
    told = scene.events.all()
    assert isinstance(told[-2], events.Failed)
    assert isinstance(told[-1], events.Stopped)


async def test_a_refusal_in_the_middle_cancels_the_handlers(scene: Scene) -> None:
    await scene.submit("a")
    with pytest.raises(WorkerRefusedError):
        async with scene.worker():
            await scene.until_started(1)
            scene.server.end_sessions(Status(StatusCode.PERMISSION_DENIED, "no more"))
            await scene.until_cancelled("a", CancelReason.LEASE_LOST)


async def test_a_server_that_never_says_welcome_is_left(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "WELCOME_WITHIN", 1.0)
    with scene.server.script() as script:
        script.unwelcome_sessions = 1
    await scene.submit("a")
    async with scene.worker():
        await scene.until_started(1)
        await scene.until_event(events.Degraded)
        scene.open_gate()


async def test_a_server_that_falls_silent_is_left_within_its_liveness_timeout(short: Scene) -> None:
    async with short.worker() as worker:
        await short.until_event(events.Ready)
        with short.server.script() as script:
            script.silent = True
        await short.until_event(events.Degraded)
        assert not worker.healthy()
        with short.server.script() as script:
            script.silent = False
        await short.submit("a")
        short.open_gate()
        await short.server.until("the job to complete", lambda seen: seen.settled("complete") == ["a"])


async def test_a_superseded_worker_stops_and_does_not_come_back(scene: Scene) -> None:
    await scene.submit("a")
    older = scene.worker(worker_id="same")
    with pytest.raises(WorkerSupersededError):
        async with older:
            await scene.until_started(1)
            async with scene.worker(worker_id="same"):
                await scene.until_cancelled("a", CancelReason.LEASE_LOST)
                seen = await scene.server.until("the job to be handed on", lambda seen: len(seen.delivered) == 2)
                assert len(seen.hellos) == 2, "no ping-pong"
                scene.open_gate()


async def test_a_stream_that_ends_as_superseded_stops_the_worker_too(scene: Scene) -> None:
    with pytest.raises(WorkerSupersededError):
        async with scene.worker():
            await scene.server.until("a session", lambda seen: seen.sessions == 1)
            scene.server.end_sessions(Status(StatusCode.ABORTED, "newer", reasons.SESSION_SUPERSEDED))
            await scene.until_event(events.Stopped)


async def test_a_hello_that_was_too_slow_is_said_again(scene: Scene) -> None:
    slow = Status(StatusCode.UNAVAILABLE, "no Hello within 10 s", reasons.HELLO_LATE, side_effects="none")
    with scene.server.script() as script:
        script.refuse_sessions.append(slow)
    async with scene.worker():
        await scene.server.until("a session", lambda seen: seen.sessions == 1)


async def test_a_server_that_drains_is_left_with_the_leases_kept(scene: Scene) -> None:
    await scene.submit("a")
    async with scene.worker():
        await scene.until_started(1)
        scene.server.go_away(reconnect_delay=0.05)
        seen = await scene.server.until("a second session", lambda seen: len(seen.hellos) == 2)
        assert len(seen.hellos[1].held_leases) == 1
        scene.open_gate()
        await scene.server.until("the job to complete", lambda seen: seen.settled("complete") == ["a"])


async def test_a_worker_is_healthy_while_its_session_is_live(scene: Scene) -> None:
    with scene.server.script() as script:
        script.refuse_sessions.append(Status(StatusCode.UNAVAILABLE, "not yet"))
    worker = scene.worker()
    assert not worker.healthy()
    async with worker:
        await scene.until_event(events.Ready)
        assert worker.healthy()
    assert not worker.healthy()
    with pytest.raises(RuntimeError, match="started before"):
        await worker.run_until()


async def test_a_callback_that_fails_does_not_end_the_worker(scene: Scene) -> None:
    def fails(event: events.Event) -> None:
        scene.events.add(event)
        raise KeyError(event)

    async with scene.worker(on_event=fails) as worker:
        await scene.until_event(events.Ready)
        assert worker.healthy()


async def test_the_weights_of_queues_are_told(scene: Scene) -> None:
    async with Worker(scene.client, {"q": 3, "other": 1}, scene.at_the_gate):
        seen = await scene.server.until("a session", lambda seen: seen.sessions == 1)
    assert {(queue.queue, queue.weight) for queue in seen.hellos[0].queues} == {("q", 3), ("other", 1)}


async def test_the_clients_headers_go_with_every_session(scene: Scene) -> None:
    async with (
        scene.server.client(metadata=[("authorization", "Bearer x")]) as client,
        Worker(client, ["q"], scene.at_the_gate),
    ):
        seen = await scene.server.until("a session", lambda seen: seen.sessions == 1)
    assert seen.headers[0]["authorization"] == "Bearer x"
