"""How a handler ends is what its job becomes, once."""

from __future__ import annotations

import asyncio
import builtins
import functools
import sys
from typing import Any

import pytest
from support import Log, Scene

from keywork import (
    Complete,
    Context,
    DeadReason,
    Fail,
    InvalidArgumentError,
    Job,
    LostReason,
    Next,
    Outcome,
    QueueConfig,
    Release,
    Rerun,
    Retry,
    SettledOutcome,
    Submit,
    SubmitOutcome,
    Submitted,
    events,
)
from keywork.testing import job, run_once, run_once_sync


def by_key(job: Job) -> Outcome | None:
    """What the handler of each key does."""
    first = job.attempt == 1
    if job.key == "retry" and first:
        raise Retry(0.02, "later")
    if job.key == "returned" and first:
        return Retry(0.02, "returned")
    if job.key == "error" and first:
        raise ValueError("broke")
    if job.key == "fail":
        raise Fail("no use")
    return None


async def by_key_async(context: Context, job: Job) -> Outcome | None:
    return by_key(job)


def by_key_plain(context: Context, job: Job) -> Outcome | None:
    return by_key(job)


@pytest.mark.parametrize("handler", [by_key_async, by_key_plain])
async def test_each_end_of_a_handler_settles_its_job_in_its_own_way(scene: Scene, handler: Any) -> None:
    await scene.submit("complete", "retry", "returned", "error", "fail")
    async with scene.worker(handler):
        seen = await scene.server.until("all to end", lambda seen: len(seen.settled("complete")) == 4)
    errors = {one.key: one.error for one in seen.settlements if one.outcome == "retry"}
    assert errors == {"retry": "later", "returned": "returned", "error": "ValueError: broke"}
    [dead] = scene.server.dead("q")
    assert (dead.job.key, dead.job.last_error, dead.reason) == ("fail", "no use", DeadReason.FAILED)


async def test_a_released_job_costs_no_attempt(scene: Scene) -> None:
    attempts: Log[int] = Log()

    async def once(context: Context, job: Job) -> None:
        attempts.add(job.attempt)
        if len(attempts.all()) == 1:
            raise Release

    await scene.submit("a")
    async with scene.worker(once):
        await attempts.until("two runs", lambda log: log == [1, 1])


async def test_a_settlement_without_an_answer_is_sent_again_after_the_reconnect(scene: Scene) -> None:
    with scene.server.script() as script:
        script.unanswered_settlements = 1
    await scene.submit("a")
    scene.open_gate()
    async with scene.worker() as worker:
        await scene.server.until("the settlement", lambda seen: len(seen.settlements) == 1)
        scene.server.end_sessions()
        seen = await scene.server.until("it again", lambda seen: len(seen.settlements) == 2)
        assert seen.settlements[1].answer is SettledOutcome.ALREADY_SETTLED
        assert len(seen.delivered) == 1
    counts = worker.counts()
    assert (counts.settled, counts.dropped_results) == (1, 0)
    [settled] = [event for event in scene.events.all() if isinstance(event, events.Settled)]
    assert (settled.key, settled.outcome) == ("a", SettledOutcome.ALREADY_SETTLED)


async def test_a_settlement_that_could_not_be_confirmed_is_tried_again(scene: Scene) -> None:
    with scene.server.script() as script:
        script.settlement_answers.extend([SettledOutcome.TRY_AGAIN] * 2)
    await scene.submit("a")
    scene.open_gate()
    async with scene.worker():
        seen = await scene.server.until("success", lambda seen: seen.settled("complete") == ["a"])
        assert len(seen.settlements) == 3


async def test_a_settlement_that_came_too_late_is_dropped_and_counted(scene: Scene) -> None:
    with scene.server.script() as script:
        script.settlement_answers.append(SettledOutcome.LEASE_LOST)
    await scene.submit("a")
    scene.open_gate()
    async with scene.worker() as worker:
        await scene.until_event(events.Settled)
        counts = worker.counts()
        assert (counts.settled, counts.leases_lost, counts.dropped_results) == (0, 1, 1)
    told = [event for event in scene.events.all() if isinstance(event, (events.LeaseLost, events.Settled))]
    assert [type(event) for event in told] == [events.LeaseLost, events.Settled]
    assert isinstance(told[0], events.LeaseLost)
    assert told[0].reason is LostReason.EXPIRED


async def test_a_settlement_that_is_refused_becomes_a_retry(scene: Scene) -> None:
    async def again(context: Context, job: Job) -> None:
        if job.attempt == 1:
            raise Rerun(delay=5)

    await scene.submit("a")
    async with scene.worker(again):
        seen = await scene.server.until("the second attempt", lambda seen: seen.settled("complete") == ["a"])
    assert seen.settled("retry") == ["a"]
    assert "NOT_SERVED_YET" in seen.settlements[1].error
    assert any(isinstance(event, events.SettlementRejected) for event in scene.events.all())


async def test_a_retry_with_a_delay_that_is_refused_becomes_one_without(scene: Scene) -> None:
    async def later(context: Context, job: Job) -> None:
        if job.attempt == 1:
            raise Retry(delay=10**9)

    with scene.server.script() as script:
        script.settlement_answers.append(SettledOutcome.REJECTED)
    await scene.submit("a")
    async with scene.worker(later):
        seen = await scene.server.until("the second attempt", lambda seen: seen.settled("complete") == ["a"])
    assert seen.settled("retry") == ["a"]
    assert "the server refused the settlement" in seen.settlements[1].error


async def test_what_is_ready_together_is_settled_in_one_message(scene: Scene) -> None:
    results = await scene.client.submit_many(Submit("q", f"key-{number}") for number in range(2_000))
    assert all(isinstance(result, Submitted) and result.accepted for result in results)
    scene.open_gate()
    async with scene.worker(concurrency=500):
        seen = await scene.server.until("all", lambda seen: len(seen.settled("complete")) == 2_000)
    assert seen.settlement_messages <= 500, f"{seen.settlement_messages} messages"


async def test_interceptors_are_called_from_the_outermost_inwards(scene: Scene) -> None:
    log: Log[str] = Log()

    async def named(name: str, context: Context, job: Job, following: Next) -> object:
        log.add(f"{name} in")
        result = await following(context, job)
        log.add(f"{name} out")
        return result

    def plain(context: Context, job: Job) -> None:
        log.add("handler")

    await scene.submit("a")
    interceptors = [functools.partial(named, "outer"), functools.partial(named, "inner")]
    async with scene.worker(plain, interceptors=interceptors):
        await log.until("both", lambda log: len(log) == 5)
    assert log.all() == ["outer in", "inner in", "handler", "inner out", "outer out"]


async def test_a_handler_that_is_cancelled_by_what_it_awaits_has_failed(scene: Scene) -> None:
    async def awaits_a_cancelled_future(context: Context, job: Job) -> None:
        if job.attempt == 1:
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future

    await scene.submit("a")
    async with scene.worker(awaits_a_cancelled_future):
        seen = await scene.server.until("the second attempt", lambda seen: seen.settled("complete") == ["a"])
    assert seen.settled("retry") == ["a"]


async def test_leases_can_be_pulled_extended_and_settled_without_a_stream(scene: Scene) -> None:
    await scene.submit("a")
    [leased] = await scene.client.pull("q", wait=5)
    assert (leased.job.key, leased.job.attempt) == ("a", 1)
    [extended] = await scene.client.heartbeat([leased.token])
    assert extended.extended
    [settled] = await scene.client.ack([(leased.token, None)])
    assert settled.outcome is SettledOutcome.SETTLED
    [settled] = await scene.client.ack([(leased.token, Complete())])
    assert settled.outcome is SettledOutcome.ALREADY_SETTLED
    [unknown] = await scene.client.heartbeat([b"no such lease"])
    assert unknown.lost is LostReason.EXPIRED
    assert await scene.client.pull("q", wait=0) == []


async def test_dead_letters_can_be_seen_redriven_and_deleted(scene: Scene) -> None:
    def never_works(context: Context, job: Job) -> None:
        raise OSError("never works")

    for key in ["a", "b"]:
        await scene.client.submit("q", key, "p", max_attempts=1)
    async with scene.worker(never_works):
        await scene.server.until("two ends", lambda seen: len(seen.settled("retry")) == 2)
    page = await scene.client.list_dead_jobs("q")
    assert (len(page), page.next_page_token) == (2, "")
    first = page.items[0]
    assert (first.reason, first.job.payload) == (DeadReason.ATTEMPTS_EXHAUSTED, b"p")
    assert len(await scene.client.list_dead_jobs("q", key="b")) == 1
    [redriven] = await scene.client.redrive_dead_jobs("q", [first.dead_id])
    assert isinstance(redriven.result, Submitted)
    assert redriven.result.outcome is SubmitOutcome.CREATED
    assert await scene.client.delete_dead_jobs("q", [first.dead_id]) == 0
    assert await scene.client.delete_all_dead_jobs("q") == 1


async def test_no_ids_mean_none_and_the_oldest_are_asked_for(scene: Scene) -> None:
    async def fails(context: Context, job: Job) -> None:
        raise Fail("no use")

    await scene.submit("a", "b", "c")
    async with scene.worker(fails, concurrency=1):
        await scene.server.until("three ends", lambda seen: len(seen.settled("fail")) == 3)
    client = scene.client
    # Without a call: there is no such queue.
    assert await client.redrive_dead_jobs("nowhere", []) == []
    assert await client.delete_dead_jobs("nowhere", iter(())) == 0
    with scene.server.sync_client() as blocking:
        assert blocking.redrive_dead_jobs("nowhere", []) == []
        assert blocking.delete_dead_jobs("nowhere", []) == 0
        [redriven] = blocking.redrive_oldest_dead_jobs("q", 1)
    assert isinstance(redriven.result, Submitted)
    assert redriven.result.job.key == "a"
    assert await client.redrive_oldest_dead_jobs("q", 0) == []
    with pytest.raises(InvalidArgumentError, match="max_jobs: "):
        await client.redrive_oldest_dead_jobs("q", -1)
    assert len(await client.redrive_oldest_dead_jobs("q")) == 2


async def test_queues_can_be_looked_after(scene: Scene) -> None:
    client = scene.client
    made = await client.create_queue("q", QueueConfig(max_attempts=3))
    assert made.config.max_attempts == 3
    await client.create_queue("q", QueueConfig(max_attempts=3))
    with pytest.raises(Exception, match="QUEUE_EXISTS"):
        await client.create_queue("q")
    updated = await client.update_queue("q", QueueConfig(lease_duration=30))
    assert (updated.config.lease_duration, updated.config.max_attempts) == (30, 3)
    assert (await client.pause_queue("q")).paused
    assert not (await client.resume_queue("q")).paused
    await scene.submit("a")
    assert (await client.get_queue("q")).stats.outstanding == 1
    with pytest.raises(Exception, match="QUEUE_NOT_EMPTY"):
        await client.delete_queue("q")
    assert await client.purge_queue("q") == 1
    assert [queue.name for queue in await client.list_queues(page_size=10)] == ["q"]
    await client.delete_queue("q")
    assert len(await client.list_queues()) == 0


@pytest.mark.parametrize("handler", [by_key_async, by_key_plain])
async def test_run_once_tells_how_a_handler_ends(handler: Any) -> None:
    assert await run_once(handler, job("q", "complete")) == Complete()
    assert await run_once(handler, job("q", "retry")) == Retry(0.02, "later")
    assert await run_once(handler, job("q", "retry", attempt=2)) == Complete()
    assert await run_once(handler, job("q", "fail", "payload")) == Fail("no use")
    failed = await run_once(handler, job("q", "error"))
    assert isinstance(failed, Retry)
    assert (failed.delay, failed.chosen) == (None, False)


def test_a_plain_function_that_returns_an_awaitable_has_failed() -> None:
    outcome = run_once_sync(lambda context, job: by_key_async(context, job), job("q", "complete"))
    assert isinstance(outcome, Retry)
    assert "async def" in outcome.because


async def test_every_kind_of_callable_is_a_handler() -> None:
    class Object:
        async def __call__(self, context: Context, job: Job) -> Outcome | None:
            return by_key(job)

        def method(self, context: Context, job: Job) -> Outcome | None:
            return by_key(job)

    async def configured(setting: int, context: Context, job: Job) -> Outcome | None:
        return by_key(job)

    handlers: list[Any] = [
        Object(),
        Object().method,
        Object().__call__,
        functools.partial(configured, 1),
        lambda _, job: by_key(job),
    ]
    for handler in handlers:
        assert await run_once(handler, job("q", "fail")) == Fail("no use")


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class NeedsArguments(Retry):
    def __init__(self, wait: float, why: str) -> None:
        super().__init__(wait, why)


class BadInput(Fail):
    """As programs write it who do not know of `Fail`'s own constructor."""

    def __init__(self, place: int) -> None:
        self.place = place


class Odd(Retry):
    def __init__(self) -> None:
        self.delay = "soon"  # type: ignore[assignment]


#: What handlers do that must harm their own job only: what they end with, and what is sent for it.
STRANGE_ENDS: dict[str, tuple[Any, Outcome]] = {
    "surrogates": (OSError("no file caf\udce9"), Retry(because="OSError: no file caf?")),
    "unspeakable": (UnspeakableError(), Retry(because="UnspeakableError: (its text cannot be made)")),
    "a reason with surrogates": (Fail("caf\udce9"), Fail("caf?")),
    "no constructor": (BadInput(3), Fail("")),
    "never": (lambda: Retry(float("nan")), Retry(because="ValueError: a delay must be")),
    "negative": (lambda: Retry(-1), Retry(because="ValueError: a delay must be")),
    "odd": (Odd(), Retry(because="TypeError: must be seconds")),
    "a text": (lambda: Retry("db down"), Retry(because="TypeError: a delay must be")),  # type: ignore[arg-type]
    "a class": (lambda: NeedsArguments, Retry(because="TypeError: ")),
    "no bytes": (lambda: Rerun(0, {"a": 1}), Retry(because="TypeError: must be bytes or str")),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("plain", [False, True])
async def test_a_handler_that_ends_strangely_harms_its_own_job_only(scene: Scene, plain: bool) -> None:
    def ends(context: Context, job: Job) -> object:
        how, _ = STRANGE_ENDS.get(job.key, (None, None))
        if job.attempt > 1 or how is None:
            return None
        if isinstance(how, Exception):
            raise how
        return how()

    async def ends_async(context: Context, job: Job) -> object:
        return ends(context, job)

    await scene.submit(*STRANGE_ENDS)
    async with scene.worker(ends if plain else ends_async):
        await scene.server.until(
            "all", lambda seen: len(seen.settled("complete") + seen.settled("fail")) == len(STRANGE_ENDS)
        )
        await scene.submit("another")
        seen = await scene.server.until("another", lambda seen: "another" in seen.settled("complete"))
    first = {one.key: one for one in reversed(seen.settlements)}
    for key, (_, sent) in STRANGE_ENDS.items():
        assert first[key].outcome == sent.name
        text = sent.because if isinstance(sent, Retry) else sent.reason  # type: ignore[attr-defined]
        assert first[key].error.startswith(text)


def test_an_error_tells_its_causes() -> None:
    def handler(context: Context, job: Job) -> None:
        try:
            raise OSError("disk full")
        except OSError as cause:
            raise RuntimeError("failed to sync") from cause

    outcome = run_once_sync(handler, job("q", "k"))
    assert isinstance(outcome, Retry)
    assert outcome.because == "RuntimeError: failed to sync: caused by OSError: disk full"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no exception groups")
async def test_an_exception_group_tells_its_members() -> None:
    async def handler(context: Context, job: Job) -> None:
        group = getattr(builtins, "ExceptionGroup")  # noqa: B009 - the types are those of Python 3.10.
        raise group("two shards failed", [OSError("disk full"), ValueError()])

    outcome = await run_once(handler, job("q", "k"))
    assert isinstance(outcome, Retry)
    told = "ExceptionGroup: two shards failed (2 sub-exceptions): [OSError: disk full; ValueError]"
    assert outcome.because == told


def test_outcomes_are_values() -> None:
    assert Retry(1, "x") == Retry(1.0, "x") != Retry(2, "x")
    assert len({Release(), Release(), Fail("a"), Fail("b"), Rerun(1), Complete()}) == 5
    assert repr(Retry(5, "later")) == "Retry(5.0, 'later')"
    assert len(Fail("ü" * 2_000).reason.encode()) == 2_048
