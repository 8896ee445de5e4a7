"""Submitting is safe to retry, and each answer says what happened."""

from __future__ import annotations

import asyncio
import socket
import time
import uuid
from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from support import Scene

from keywork import (
    AlreadyExistsError,
    Backoff,
    CallError,
    Client,
    InvalidArgumentError,
    NotFoundError,
    OnConflict,
    QueueConfig,
    ResourceExhaustedError,
    StatusCode,
    Submit,
    SubmitNext,
    SubmitOutcome,
    Submitted,
    UnavailableError,
    UnimplementedError,
    _connection,
    errors,
    raw,
    reasons,
    sync,
)
from keywork._patience import LAST_TRY, Patience
from keywork.job import JobState
from keywork.testing import FakeServer, Status, SubmitFault


async def test_a_busy_key_is_an_outcome_that_names_its_job(scene: Scene) -> None:
    created = await scene.client.submit("q", "a", "v1")
    assert created.outcome is SubmitOutcome.CREATED
    busy = await scene.client.submit("q", "a", "v2")
    assert busy.outcome is SubmitOutcome.ALREADY_OUTSTANDING
    assert (busy.job.id, busy.job.state, busy.accepted) == (created.job.id, JobState.QUEUED, False)
    found = await scene.client.get_job("q", "a")
    assert found is not None
    assert found.payload == b"v1"
    assert await scene.client.get_job("q", "nothing") is None


async def test_a_submit_whose_answer_is_lost_is_tried_again_with_the_same_id(scene: Scene) -> None:
    with scene.server.script() as script:
        script.submit_faults.extend([SubmitFault.UNAVAILABLE, SubmitFault.ANSWER_LOST])
    submitted = await scene.client.submit("q", "a")
    assert submitted.outcome is SubmitOutcome.CREATED, "it is this call's own job"
    submits = scene.server.seen().submits
    assert len(submits) == 3
    assert len(set(submits)) == 1


async def test_the_callers_request_id_is_kept_and_found_again(scene: Scene) -> None:
    request_id = uuid.uuid4()
    created = await scene.client.submit("q", "a", request_id=request_id)
    assert created.job.id == str(request_id)
    again = await scene.client.submit("q", "a", request_id=str(request_id))
    assert (again.outcome, again.job.id) == (SubmitOutcome.DUPLICATE, str(request_id))


async def test_a_made_id_is_a_uuid_of_version_7(scene: Scene) -> None:
    created = await scene.client.submit("q", "a")
    assert uuid.UUID(created.job.id).version == 7


async def test_a_submit_gives_up_at_its_deadline_and_says_that_it_may_have_counted(server: FakeServer) -> None:
    with server.script() as script:
        script.submit_faults.append(SubmitFault.ANSWER_LOST)
        script.submit_faults.extend([SubmitFault.UNAVAILABLE] * 50)
    async with server.client(submit_deadline=0.4) as client:
        with pytest.raises(UnavailableError) as caught:
            await client.submit("q", "a")
    assert caught.value.reason in (reasons.NATS_UNAVAILABLE, reasons.NATS_NO_ANSWER)
    assert caught.value.is_retryable()
    assert not caught.value.has_no_side_effects(), "the first try may have stored it"


async def _one(client: Client) -> CallError:
    with pytest.raises(UnavailableError) as caught:
        await client.submit("q", "a")
    return caught.value


async def _batch(client: Client) -> CallError:
    with pytest.raises(UnavailableError) as caught:
        await client.submit_batch([Submit("q", "a")])
    return caught.value


async def _many(client: Client) -> CallError:
    [answer] = await client.submit_many([Submit("q", "a")])
    assert isinstance(answer, UnavailableError)
    return answer


@pytest.mark.parametrize("submit", [_one, _batch, _many])
async def test_without_a_server_a_submit_uses_its_deadline_up(submit: Any) -> None:
    async with Client("http://127.0.0.1:1", submit_deadline=2) as client:
        before = time.monotonic()
        error = await submit(client)
        assert 1.8 <= time.monotonic() - before <= 2.3
    assert str(error).startswith("http://127.0.0.1:1: "), "it names the server"


async def test_an_offer_that_fails_again_and_again_uses_its_deadline_up(server: FakeServer) -> None:
    with server.script() as script:
        script.submit_faults.extend([Status(StatusCode.UNAVAILABLE, "away", retry_after=0.4)] * 50)
    async with server.client(submit_deadline=1) as client:
        before = time.monotonic()
        [answer] = await client.submit_many([Submit("q", "a")])
        assert time.monotonic() - before >= 0.9
    assert isinstance(answer, UnavailableError)


def test_a_last_try_that_ran_out_of_time_does_not_hide_what_the_one_before_met() -> None:
    with sync.Client("http://127.0.0.1:1") as client:
        patience = Patience(client._channels, time.monotonic() + LAST_TRY + 60)
        met, ran_out = (errors.make(code, "away") for code in (StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED))
        patience.after(met)
        patience.deadline = time.monotonic() + LAST_TRY
        with pytest.raises(CallError) as caught:
            patience.after(ran_out)
        assert caught.value is met
        patience.renew(time.monotonic())
        with pytest.raises(CallError) as caught:
            patience.after(ran_out)
        assert caught.value is ran_out, "what was met before an answer is over"


async def test_an_outage_of_one_server_turns_to_the_next(server: FakeServer) -> None:
    async with Client("http://127.0.0.1:1", server.endpoint) as client:
        assert (await client.submit("q", "a")).outcome is SubmitOutcome.CREATED


async def test_calls_that_are_not_repeated_turn_to_the_next_server_too(server: FakeServer) -> None:
    async with Client("http://127.0.0.1:1", server.endpoint) as client:
        with pytest.raises(UnavailableError):
            await client.get_job("q", "a")
        assert await client.get_job("q", "a") is None


async def test_a_refusal_names_the_field_and_is_not_retried(scene: Scene) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await scene.client.submit("q", "k" * 513)
    error = caught.value
    assert (error.code, error.reason) == (StatusCode.INVALID_ARGUMENT, reasons.INVALID_FIELD)
    assert error.violations[0].field == "key"
    assert not error.is_retryable()
    assert error.has_no_side_effects()
    assert len(scene.server.seen().submits) == 1


async def test_on_conflict_fail_makes_a_busy_key_an_error(scene: Scene) -> None:
    await scene.submit("a")
    with pytest.raises(AlreadyExistsError) as caught:
        await scene.client.submit("q", "a", on_conflict=OnConflict.FAIL)
    assert caught.value.reason == reasons.KEY_BUSY
    assert caught.value.has_no_side_effects()


async def test_no_server_at_all_is_retryable_and_without_effect() -> None:
    async with Client("http://127.0.0.1:1", submit_deadline=0.2) as client:
        with pytest.raises(UnavailableError) as caught:
            await client.submit("q", "a")
    assert caught.value.is_retryable()
    assert caught.value.has_no_side_effects()


async def test_a_server_that_does_not_answer_is_unanswered() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        async with Client(f"http://127.0.0.1:{mute.getsockname()[1]}", call_timeout=0.3) as client:
            with pytest.raises(CallError) as caught:
                await client.get_job("q", "a")
    assert caught.value.is_retryable()
    assert not caught.value.has_no_side_effects()


async def test_many_submits_are_answered_in_their_order_and_a_bad_one_spoils_no_other(scene: Scene) -> None:
    await scene.submit("busy")
    results = await scene.client.submit_many(Submit("q", key) for key in ["a", "busy", "", "b"])
    assert _outcome(results[0]) is SubmitOutcome.CREATED
    assert _outcome(results[1]) is SubmitOutcome.ALREADY_OUTSTANDING
    assert isinstance(results[2], CallError)
    assert results[2].violations[0].field == "key"
    assert isinstance(results[3], Submitted)
    assert results[3].job.key == "b"


async def test_nothing_to_submit_is_answered_at_once(scene: Scene) -> None:
    assert await scene.client.submit_many([]) == []
    assert await scene.client.submit_batch([]) == []


async def test_a_broken_submit_stream_is_mended_with_the_same_ids(scene: Scene) -> None:
    with scene.server.script() as script:
        script.submit_faults.extend([SubmitFault.BROKEN, SubmitFault.UNAVAILABLE, SubmitFault.BROKEN])
    results = await scene.client.submit_many(Submit("q", f"key-{number}") for number in range(1_000))
    assert [_key(result) for result in results] == [f"key-{number}" for number in range(1_000)]
    assert all(_outcome(result) is SubmitOutcome.CREATED for result in results)
    assert len(set(scene.server.seen().submits)) == 1_000, "each was offered again under its own id"


async def test_a_stream_of_submits_is_answered_as_it_goes(scene: Scene) -> None:
    async def endless() -> AsyncIterator[Submit]:
        number = 0
        while True:
            yield Submit("q", f"key-{number}")
            number += 1

    seen = 0
    answers = scene.client.submit_stream(endless())
    async for _, result in answers:
        assert _outcome(result) is SubmitOutcome.CREATED
        seen += 1
        if seen == 5_000:
            break
    await answers.aclose()


async def test_a_stream_that_was_idle_for_long_is_as_patient_as_a_new_one(server: FakeServer) -> None:
    async def slow() -> AsyncIterator[Submit]:
        yield Submit("q", "a")
        await server.until("the first", lambda seen: len(seen.submits) == 1)
        await asyncio.sleep(0.6)  # More than the client's patience.
        with server.script() as script:
            script.submit_faults.append(SubmitFault.BROKEN)
        yield Submit("q", "b")

    async with server.client(submit_deadline=0.5) as client:
        results = await client.submit_many(slow())
    assert [_outcome(result) for result in results] == [SubmitOutcome.CREATED] * 2


async def test_a_channel_is_replaced_after_repeated_outages(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_connection, "FRESH_EVERY", 0.0)
    async with server.client() as client:
        await client.submit("q", "a")
        first = client._channels._made[0]
        refusals = [Status(StatusCode.UNAVAILABLE, "away", retry_after=0)] * 4
        with server.script() as script:
            script.submit_faults.extend(refusals)
        assert (await client.submit("q", "b")).accepted
        assert client._channels._made[0] is not first
        assert [channel for _, channel in client._channels._stale] == [first], "calls may go over it still"


async def test_an_error_of_the_source_is_raised(scene: Scene) -> None:
    async def broken() -> AsyncIterator[Submit]:
        yield Submit("q", "a")
        raise KeyError("source")

    with pytest.raises(KeyError):
        await scene.client.submit_many(broken())


async def test_what_cannot_be_written_is_refused_and_spoils_no_other(scene: Scene) -> None:
    submits = [Submit("q", "a"), Submit("q", "\ud800"), Submit("q", "b", max_attempts=-1), Submit("q", "c")]
    for results in (await scene.client.submit_many(submits), await scene.client.submit_batch(submits)):
        assert [isinstance(result, InvalidArgumentError) for result in results] == [False, True, True, False]
        assert [_key(result) for result in (results[0], results[3])] == ["a", "c"]
    assert len(scene.server.seen().submits) == 4, "of each call two"


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("key", {"key": "\ud800"}),
        ("payload", {"payload": "\ud800"}),
        ("max_attempts", {"max_attempts": -1}),
        ("delay", {"delay": float("nan")}),
        ("delay", {"delay": float("inf")}),
        ("backoff.max", {"backoff": Backoff(1, 1e30)}),
        ("start_at", {"delay": 1, "start_at": datetime(2099, 1, 1, tzinfo=timezone.utc)}),
    ],
)
async def test_what_cannot_be_sent_is_refused_as_a_server_would(
    scene: Scene, field: str, options: dict[str, Any]
) -> None:
    offer = {"queue": "q", "key": "a"} | options
    with pytest.raises(InvalidArgumentError) as caught:
        await scene.client.submit(**offer)
    [one] = await scene.client.submit_many([Submit(**offer)])
    assert isinstance(one, InvalidArgumentError)
    for error in (caught.value, one):
        assert [violation.field for violation in error.violations] == [field]
        assert (error.code, error.reason) == (StatusCode.INVALID_ARGUMENT, reasons.INVALID_FIELD)
        assert error.has_no_side_effects()
        assert not error.is_retryable()
        assert str(error).count(error.violations[0].description) == 1
    assert not scene.server.seen().submits


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("payload", {"payload": {"rows": 3}}),
        ("attributes", {"attributes": {"rows": 3}}),
        ("delay", {"delay": "5"}),
        ("start_at", {"start_at": "2099-01-01"}),
        ("on_conflict", {"on_conflict": "fail"}),
    ],
)
async def test_a_value_of_the_wrong_type_is_a_type_error_that_names_it(
    scene: Scene, field: str, options: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match=f"^{field}: "):
        await scene.client.submit("q", "a", **options)


async def test_everything_like_bytes_is_a_payload(scene: Scene) -> None:
    for key, payload in {"a": b"\xff\0", "b": bytearray(b"\xff\0"), "c": memoryview(b"\xff\0"), "d": "ü✓"}.items():
        await scene.client.submit("q", key, payload)  # type: ignore[arg-type]
        found = await scene.client.get_job("q", key)
        assert found is not None
        assert found.payload == ("ü✓".encode() if key == "d" else b"\xff\0")


async def test_other_calls_name_what_is_wrong_too(scene: Scene) -> None:
    for field, call in {
        "config.max_attempts": scene.client.create_queue("q", QueueConfig(max_attempts=-1)),
        "config.lease_duration": scene.client.create_queue("q", QueueConfig(lease_duration=float("nan"))),
        "max_jobs": scene.client.pull("q", max_jobs=-1),
        "page_size": scene.client.list_dead_jobs("q", page_size=-1),
        "name": scene.client.get_queue("\ud800"),
    }.items():
        with pytest.raises(InvalidArgumentError) as caught:
            await call
        assert [violation.field for violation in caught.value.violations] == [field]


async def test_a_stream_of_a_client_that_is_closed_ends(scene: Scene) -> None:
    client = scene.server.client()
    await client.aclose()
    for result in await client.submit_many([Submit("q", "a"), Submit("q", "b")]):
        assert isinstance(result, CallError)
        assert "closed" in result.message
    with pytest.raises(RuntimeError, match="closed"):
        await client.submit("q", "a")


async def test_a_stream_that_is_refused_fails_every_submit() -> None:
    async with Client("http://127.0.0.1:1", submit_deadline=0.3) as client:
        results = await client.submit_many([Submit("q", "a"), Submit("q", "b")])
    for result in results:
        assert isinstance(result, CallError)
        assert result.is_retryable()


async def test_a_batch_gives_one_verdict_each(scene: Scene) -> None:
    request_id = uuid.uuid4()
    results = await scene.client.submit_batch(
        [
            Submit("q", "a", request_id=request_id),
            Submit("q", "a"),
            Submit("q", ""),
            Submit("q", "a", request_id=request_id),
        ]
    )
    assert _outcome(results[0]) is SubmitOutcome.CREATED
    assert _outcome(results[1]) is SubmitOutcome.ALREADY_OUTSTANDING
    assert isinstance(results[2], InvalidArgumentError)
    assert _outcome(results[3]) is SubmitOutcome.DUPLICATE


async def test_a_queue_that_is_full_is_told_and_left_to_the_caller(scene: Scene) -> None:
    full = Status(StatusCode.RESOURCE_EXHAUSTED, "at its limit", reasons.QUEUE_FULL, retry_after=2)
    with scene.server.script() as script:
        script.submit_faults.append(full)
    with pytest.raises(ResourceExhaustedError) as caught:
        await scene.client.submit("q", "a")
    assert (caught.value.reason, caught.value.retry_after) == (reasons.QUEUE_FULL, 2)
    assert caught.value.is_retryable()
    assert caught.value.has_no_side_effects()
    assert len(scene.server.seen().submits) == 1


async def test_a_delayed_job_holds_its_key_and_starts_later(scene: Scene) -> None:
    await scene.client.submit("q", "a", delay=timedelta(milliseconds=300))
    assert not (await scene.client.submit("q", "a")).accepted
    scene.open_gate()
    async with scene.worker():
        await scene.server.until("completion", lambda seen: seen.settled("complete") == ["a"])


async def test_every_option_of_a_submit_arrives(scene: Scene) -> None:
    expires = datetime(2099, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
    submitted = await scene.client.submit(
        "q",
        "a",
        "text",
        content_type="text/plain",
        attributes={"one": "1"},
        start_at=datetime.now(timezone.utc) - timedelta(seconds=1),
        expires_at=expires,
        max_attempts=3,
        backoff=Backoff(1, timedelta(minutes=1)),
    )
    assert submitted.job.content_type == "text/plain"
    assert submitted.job.attributes == {"one": "1"}
    assert submitted.job.max_attempts == 3


async def test_interceptors_wrap_every_submit_from_the_outermost_inwards(scene: Scene) -> None:
    seen: list[str] = []

    async def outer(submit: Submit, following: SubmitNext) -> Submitted:
        seen.append(f"outer {submit.key}")
        submitted = await following(submit)
        seen.append(f"outer {submitted.outcome.name}")
        return submitted

    async def inner(submit: Submit, following: SubmitNext) -> Submitted:
        seen.append("inner")
        return await following(submit)

    async with scene.server.client(interceptors=[outer, inner]) as client:
        await client.submit("q", "a")
    assert seen == ["outer a", "inner", "outer CREATED"]


async def test_headers_are_sent_and_raw_calls_reach_everything(scene: Scene) -> None:
    async with scene.server.client(metadata={"Authorization": "Bearer x"}) as client:
        assert client.metadata == (("authorization", "Bearer x"),)
        await client.submit("q", "a")
        async with client.channel() as channel:
            stub = raw.WorkQueueStub(channel)
            answer = await stub.GetJob(raw.GetJobRequest(queue="q", key="a"), metadata=client.metadata)
        assert answer.job.key == "a"


async def test_what_is_not_served_yet_says_so(scene: Scene) -> None:
    with pytest.raises(UnimplementedError) as caught:
        await scene.client.cancel_job("q", "a")
    assert caught.value.reason == reasons.NOT_SERVED_YET
    with pytest.raises(UnimplementedError):
        await scene.client.list_jobs("q")
    with pytest.raises(UnimplementedError):
        async for _ in scene.client.watch_jobs("q"):
            pass


async def test_a_cancelled_call_is_cancelled(scene: Scene) -> None:
    pulling = asyncio.ensure_future(scene.client.pull("q", wait=20))
    await asyncio.sleep(0)
    pulling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pulling


async def test_an_unknown_queue_is_not_found(scene: Scene) -> None:
    with pytest.raises(NotFoundError) as caught:
        await scene.client.get_queue("nothing")
    assert caught.value.reason == reasons.QUEUE_NOT_FOUND


def test_an_endpoint_must_be_a_uri() -> None:
    for endpoint in [
        "127.0.0.1:50051",
        "ftp://host:1",
        "http://",
        "http://host:1/path",
        "http://host:0",
        "http://host:x",
        "http://host:70000",
        "http://host:1?x=1",
        "http://a:1, http://b:1",
        "",
    ]:
        with pytest.raises(ValueError, match="failed to read the endpoint") as caught:
            Client(endpoint)
        assert repr(endpoint) in str(caught.value)
    with pytest.raises(ValueError, match="without a name or a password") as caught:
        Client("http://me:secret@host:1")
    assert "secret" not in str(caught.value)
    several: Any = ["http://a:1", "http://b:1"]
    with pytest.raises(TypeError, match="failed to read the endpoint"):
        Client(several)


def test_a_client_outlives_the_loop_that_first_used_it(server: FakeServer) -> None:
    client = server.client()
    for key in ["a", "b"]:
        assert asyncio.run(client.submit("q", key)).accepted
    asyncio.run(client.aclose())


def _outcome(result: Submitted | CallError) -> SubmitOutcome | CallError:
    return result.outcome if isinstance(result, Submitted) else result


def _key(result: Submitted | CallError) -> str | CallError:
    return result.job.key if isinstance(result, Submitted) else result
