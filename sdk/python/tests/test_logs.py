"""A worker is understood from its logs, and no log can harm it."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest
from support import PATIENCE, Log, Scene, Started, within

from keywork import (
    CallError,
    CancelReason,
    Client,
    Context,
    Fail,
    Job,
    LostReason,
    Release,
    Retry,
    SettledOutcome,
    StatusCode,
    Submit,
    Submitted,
    Worker,
    WorkerForcedError,
    WorkerRefusedError,
    events,
    sync,
)
from keywork._worker import driver, logs, shared
from keywork.testing import Status, SubmitFault


class Records(logging.Handler):
    """What was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.log: Log[logging.LogRecord] = Log()

    def emit(self, record: logging.LogRecord) -> None:
        self.log.add(record)

    def told(self, level: int) -> list[str]:
        return [record.getMessage() for record in self.log.all() if record.levelno == level]

    async def until(self, text: str) -> logging.LogRecord:
        records = await self.log.until(text, lambda records: any(text in record.getMessage() for record in records))
        return next(record for record in records if text in record.getMessage())


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> Any:
    # On a busy machine a server may take its time.
    monkeypatch.setattr(driver, "ANSWER_WITHIN", PATIENCE)
    handler, logger = Records(), logging.getLogger("keywork")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.setLevel(logging.NOTSET)
    logger.removeHandler(handler)


async def test_a_server_that_is_not_there_is_told_of_within_a_second(records: Records) -> None:
    async def handler(context: Context, job: Job) -> None: ...

    async with Client("http://127.0.0.1:1") as client, Worker(client, "q", handler):
        record = await asyncio.wait_for(records.until("no session"), 5.0)
        # It goes on trying, and says so once.
        await records.log.until("tries", lambda log: sum("connecting" in one.getMessage() for one in log) >= 3)
    assert record.levelno == logging.WARNING
    assert "http://127.0.0.1:1" in record.getMessage()
    assert "refused" in record.getMessage()
    assert len(records.told(logging.WARNING)) == 1


async def test_a_server_that_accepts_and_says_nothing_is_told_of_within_a_second(
    scene: Scene, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    with scene.server.script() as script:
        script.unwelcome_sessions = 10
    async with scene.worker():
        # Long before it is left, which takes 10 s.
        record = await asyncio.wait_for(records.until("no answer from"), 5.0)
    assert (record.levelno, record.getMessage()) == (logging.WARNING, f"no answer from {scene.server.endpoint} yet")


async def test_a_server_without_an_answer_is_told_of_once_and_its_error_too(records: Records) -> None:
    log = logs.Logs()
    log.unanswered("http://a:1")
    log.unanswered("http://b:1")
    log.tell(events.Degraded("away", "http://a:1"), 5.0)
    log.unanswered("http://a:1")
    log.tell(events.Ready("http://a:1"), 6.0)
    log.unanswered("http://a:1")
    log.close()
    unanswered, session = "no answer from http://a:1 yet", "no session with http://a:1, trying again: away"
    assert records.told(logging.WARNING) == [unanswered, session, unanswered]


async def test_an_outage_is_told_of_again_only_after_a_while_and_the_next_one_at_once(records: Records) -> None:
    log = logs.Logs()
    degraded, ready = events.Degraded("away", "http://a:1"), events.Ready("http://a:1")
    for event, now in [(degraded, 0.0), (degraded, 29.0), (degraded, 31.0), (degraded, 60.0)]:
        log.tell(event, now)
    log.tell(ready, 60.5)
    log.tell(degraded, 61.0)
    log.close()
    levels = [record.levelno for record in records.log.all()]
    of_one = [logging.WARNING, logging.DEBUG, logging.WARNING, logging.DEBUG]
    assert levels == [*of_one, logging.INFO, logging.WARNING]


async def _one(client: Client) -> None:
    with pytest.raises(CallError):
        await client.submit("q", "a")


async def _batch(client: Client) -> None:
    with pytest.raises(CallError):
        await client.submit_batch([Submit("q", "a")])


async def _many(client: Client) -> None:
    [answer] = await client.submit_many([Submit("q", "a")])
    assert isinstance(answer, CallError)


@pytest.mark.parametrize("submit", [_one, _batch, _many])
async def test_submits_that_are_tried_again_say_so_once(records: Records, submit: Any) -> None:
    async with Client("http://127.0.0.1:1", submit_deadline=1) as client:
        for _ in range(2):
            await submit(client)
    [text] = records.told(logging.WARNING)
    assert text.startswith("submitting to http://127.0.0.1:1 failed, trying again for up to 1 s: ")
    assert text.count("http://127.0.0.1:1") == 1
    assert "refused" in text


def test_a_client_without_a_loop_says_so_too_and_again_after_a_while(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keywork._log.AGAIN", 0.0)
    with sync.Client("http://127.0.0.1:1", submit_deadline=1) as client, pytest.raises(CallError):
        client.submit("q", "a")
    assert len(records.told(logging.WARNING)) > 1, "at each failure, as it is always a while later"


@pytest.mark.parametrize("fault", [SubmitFault.UNAVAILABLE, SubmitFault.BROKEN])
async def test_a_stream_whose_offers_are_made_again_says_so(scene: Scene, records: Records, fault: SubmitFault) -> None:
    with scene.server.script() as script:
        script.submit_faults.append(fault)
    [answer] = await scene.client.submit_many([Submit("q", "a")])
    assert isinstance(answer, Submitted)
    [text] = records.told(logging.WARNING)
    assert f"submitting to {scene.server.endpoint} failed, trying again" in text


async def test_a_submit_that_is_refused_or_comes_too_late_is_the_callers_to_tell_of(
    scene: Scene, records: Records
) -> None:
    with pytest.raises(CallError):
        await scene.client.submit("q", "")
    async with Client("http://127.0.0.1:1", submit_deadline=0.05) as client:
        await _one(client)
    assert not records.log.all()


@pytest.mark.parametrize(
    ("event", "level", "told"),
    [
        (events.LeaseLost("q", "a", 7, None), logging.WARNING, "key 'a' of queue q: it could not be extended in time"),
        (events.LeaseLost("q", "a\nb", 7, LostReason.EXPIRED), logging.WARNING, r"key 'a\nb' of queue q: EXPIRED"),
        (events.SettlementRejected("q", "a", "why"), logging.WARNING, "key 'a' of queue q was refused: why"),
        (events.HandlerIgnoresCancellation("q", "a", 5.0), logging.WARNING, "key 'a' of queue q still runs, 5.0 s"),
        (events.Stopped(2), logging.WARNING, "2 handlers left behind"),
        (events.Stopped(0, 3), logging.WARNING, "3 results of handlers unconfirmed: their jobs run again"),
        (events.Stopped(0), logging.INFO, "stopped"),
    ],
)
async def test_what_is_to_be_known_is_told(records: Records, event: events.Event, level: int, told: str) -> None:
    log = logs.Logs()
    log.tell(event, 0.0)
    log.close()
    [record] = records.log.all()
    assert record.levelno == level
    assert told in record.getMessage()


def test_what_need_not_be_known_is_not_told(records: Records) -> None:
    log = logs.Logs()
    log.tell(events.Settled("q", "a", "id", 7, SettledOutcome.SETTLED), 0.0)
    log.tell(events.Failed(WorkerForcedError()), 0.0)
    log.close()
    assert not records.log.all()


async def test_the_life_of_a_worker_is_in_the_log(scene: Scene, records: Records) -> None:
    await scene.submit("a")
    scene.open_gate()
    async with scene.worker(on_event=None):
        await scene.server.until("the end", lambda seen: seen.settled("complete") == ["a"])
    [connecting] = records.told(logging.DEBUG)
    assert connecting == f"connecting to {scene.server.endpoint}"
    assert records.told(logging.INFO) == [
        f"ready: the session with {scene.server.endpoint} is open",
        "draining: no more jobs are taken",
        "stopped",
    ]
    assert not records.told(logging.WARNING)


async def test_a_lease_that_is_lost_is_told_with_its_reason(scene: Scene, records: Records) -> None:
    await scene.submit("a")
    async with scene.worker():
        await scene.until_started(1)
        scene.server.lose_lease("q", "a", LostReason.CANCELLED)
        await scene.until_cancelled("a", CancelReason.JOB_CANCELLED)
    assert records.told(logging.WARNING) == ["lost the lease of key 'a' of queue q: CANCELLED"]


@pytest.mark.parametrize("plain", [False, True])
async def test_a_handlers_error_is_told_with_its_stack(scene: Scene, records: Records, plain: bool) -> None:
    released: list[str] = []

    def breaks(context: Context, job: Job) -> None:
        if job.key == "error" and job.attempt == 1:
            raise ValueError("broke")
        if job.key == "release" and not released:
            released.append(job.key)
            raise Release
        if job.key == "retry" and job.attempt == 1:
            raise Retry(0, "on purpose")

    async def breaks_async(context: Context, job: Job) -> None:
        breaks(context, job)

    await scene.submit("error", "release", "retry")
    async with scene.worker(breaks if plain else breaks_async):
        await scene.server.until("the end", lambda seen: len(seen.settled("complete")) == 3)
    [record] = [record for record in records.log.all() if record.levelno == logging.WARNING]
    assert (
        "key 'error' of queue q failed in attempt 1 (the job is tried again): ValueError: broke" in record.getMessage()
    )
    assert record.exc_info is not None
    assert record.exc_info[2] is not None, "the stack"


async def test_an_error_that_ends_a_job_is_told_as_its_end(scene: Scene, records: Records) -> None:
    async def breaks(context: Context, job: Job) -> None:
        raise ValueError("broke")

    await scene.client.submit("q", "a", max_attempts=2)
    async with scene.worker(breaks):
        await scene.server.until("the end", lambda seen: len(seen.settled("retry")) == 2)
    assert [dead.job.key for dead in scene.server.dead("q")] == ["a"]
    assert records.told(logging.WARNING) == [
        "the handler of key 'a' of queue q failed in attempt 1 (the job is tried again): ValueError: broke",
        "the handler of key 'a' of queue q failed in attempt 2 (it was the job's last attempt: it is a dead letter): "
        "ValueError: broke",
    ]


@pytest.mark.parametrize("returned", [False, True])
async def test_a_death_that_a_handler_asks_for_is_told_of(scene: Scene, records: Records, returned: bool) -> None:
    async def ends(context: Context, job: Job) -> object:
        outcome = Fail("no such user") if job.key == "fail" else Retry(0, "busy")
        if returned:
            return outcome
        raise outcome

    await scene.client.submit("q", "fail")
    await scene.client.submit("q", "retry", max_attempts=2)
    async with scene.worker(ends):
        await scene.server.until("the end", lambda seen: len(seen.settled("retry") + seen.settled("fail")) == 3)
    assert sorted(dead.job.key for dead in scene.server.dead("q")) == ["fail", "retry"]
    told = "the handler of key %r of queue q failed in attempt %d (%s: it is a dead letter): %s"
    assert sorted(records.told(logging.WARNING)) == [
        told % ("fail", 1, "for good, as it says", "no such user"),
        told % ("retry", 2, "it was the job's last attempt", "busy"),
    ]


async def test_a_death_that_is_asked_for_after_the_lease_was_lost_is_none(scene: Scene, records: Records) -> None:
    def fails(context: Context, job: Job) -> None:
        scene.steps.add(Started(job.key))
        context.wait(PATIENCE)
        raise Fail("too late")

    await scene.submit("a")
    async with scene.worker(fails):
        await scene.until_started(1)
        scene.server.lose_lease("q", "a", LostReason.CANCELLED)
    assert records.told(logging.WARNING) == ["lost the lease of key 'a' of queue q: CANCELLED"]


async def test_handlers_that_stay_and_settlements_that_are_refused_are_told_of(scene: Scene, records: Records) -> None:
    go_on = threading.Event()

    def deaf(context: Context, job: Job) -> None:
        if job.key == "stays":
            go_on.wait(20)

    with scene.server.script() as script:
        script.settlement_answers.append(SettledOutcome.REJECTED)
    await scene.submit("refused", "stays")
    async with scene.worker(deaf, shutdown_grace=0, cancel_grace=0):
        await scene.server.until("a settlement", lambda seen: bool(seen.settled("retry")))
        await scene.server.until("both", lambda seen: seen.delivered.count("stays") == 1)
    go_on.set()
    told = records.told(logging.WARNING)
    assert any("settlement of key 'refused' of queue q was refused" in text for text in told)
    assert "stopped, with 1 handlers left behind that did not end" in told


async def test_the_error_that_run_raises_is_not_logged_as_well(scene: Scene, records: Records) -> None:
    with scene.server.script() as script:
        script.refuse_sessions.append(Status(StatusCode.PERMISSION_DENIED, "no"))
    with pytest.raises(WorkerRefusedError):
        await within("the end", scene.worker().run_until())
    assert [record.getMessage() for record in records.log.all() if record.levelno > logging.INFO] == []


@pytest.mark.parametrize("broken", ["log", "on_event"])
async def test_what_blocks_the_log_or_the_callback_costs_no_lease(
    short: Scene, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keywork._worker.aside.LINGER", 0.05)
    release = threading.Event()

    class Blocks(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            release.wait(20)

    handler, logger = Blocks(logging.INFO), logging.getLogger("keywork")
    if broken == "log":
        logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        await short.submit("a")
        listener = (lambda event: release.wait(20)) if broken == "on_event" else None
        async with short.worker(on_event=listener):
            await short.until_started(1)
            await short.server.until("three lease durations", lambda seen: seen.heartbeats >= 9)
            short.open_gate()
            seen = await short.server.until("the end", lambda seen: seen.settled("complete") == ["a"])
        assert (seen.expired, len(seen.delivered)) == (0, 1)
    finally:
        release.set()
        logger.setLevel(logging.NOTSET)
        logger.removeHandler(handler)


async def test_a_log_that_fails_costs_nothing(scene: Scene) -> None:
    class Fails(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("disk full")

    def breaks(context: Context, job: Job) -> None:
        if job.attempt == 1:
            raise ValueError("broke")

    handler, logger = Fails(), logging.getLogger("keywork")
    logger.addHandler(handler)
    try:
        await scene.submit("a")
        async with scene.worker(breaks):
            seen = await scene.server.until("the end", lambda seen: seen.settled("complete") == ["a"])
        assert seen.settled("retry") == ["a"]
    finally:
        logger.removeHandler(handler)


async def test_a_callback_that_is_too_slow_loses_events_and_that_is_told(
    scene: Scene, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "MOST_EVENTS", 1)
    release = threading.Event()
    await scene.submit(*(f"key-{number}" for number in range(20)))
    scene.open_gate()
    async with scene.worker(on_event=lambda event: release.wait(20)):
        await scene.server.until("the end", lambda seen: len(seen.settled("complete")) == 20)
        release.set()
        record = await records.until("on_event was not told of")
    assert record.levelno == logging.WARNING
