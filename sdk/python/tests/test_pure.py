"""What needs no server: fences, heartbeats, waits, endpoints, errors."""

from __future__ import annotations

import pickle
from datetime import timedelta

import grpc
from google.protobuf.duration_pb2 import Duration

from keywork import CancelReason, Job, NotFoundError, Release, _wire, errors, reasons
from keywork._backoff import LONGEST, SHORTEST, Backoff
from keywork._connection import Endpoint
from keywork._worker.beats import Beats
from keywork._worker.leases import Held, Leases, Terms, fence
from keywork.v1 import work_queue_pb2 as pb


def one(grace: float | None = None) -> tuple[Leases, Held]:
    """A table with one waiting lease whose fence is at 10."""
    leases = Leases()
    return leases, leases.insert(b"token", Job(key="k"), Terms(15.0, grace), 10.0)


def test_a_fence_counts_from_when_the_question_was_sent() -> None:
    assert fence(0.0, 15.0, 1.0) == 14.0
    assert fence(0.0, 1.0, 2.0) == 0.0


def test_a_fence_only_moves_forward() -> None:
    leases, held = one()
    held.extend(0.0, 5.0)
    assert leases.fenced(None, 9.0) == ([], 10.0)
    held.extend(5.0, 15.0)
    assert leases.fenced(None, 18.0) == ([], 19.0)
    assert leases.fenced(None, 19.0) == ([held], None)
    assert held.context.deadline == 19.0


def test_a_margin_is_a_tenth_within_bounds() -> None:
    assert [Terms(duration).margin for duration in (0.5, 5.0, 3_600.0)] == [0.1, 0.5, 1.0]


def test_a_disconnect_grace_brings_the_fence_nearer_only_while_the_stream_is_broken() -> None:
    leases, held = one(grace=1.0)
    assert leases.fenced(None, 4.0) == ([], 10.0)
    assert leases.fenced(2.0, 4.0) == ([held], None)


def test_a_settlement_under_way_is_not_fenced_and_not_lost() -> None:
    leases, held = one()
    assert leases.give_back(held, Release())
    assert leases.fenced(None, 60.0) == ([], None)
    assert not leases.lose(held, CancelReason.LEASE_LOST, 60.0)
    assert leases.settled(held)
    assert leases.is_empty()
    assert not leases.settled(held)


def test_a_lost_lease_occupies_its_slot_until_its_handler_ends() -> None:
    leases, held = one()
    assert leases.start(held)
    assert leases.lose(held, CancelReason.LEASE_LOST, 1.0)
    assert (leases.occupied, leases.occupied_by_lost, leases.find(b"token")) == (1, 1, None)
    assert held.context.reason is CancelReason.LEASE_LOST
    assert leases.stubborn(5.0, 3.0) == []
    assert leases.stubborn(5.0, 6.0) == [held]
    assert leases.stubborn(5.0, 9.0) == [], "each is told once"
    assert not leases.finish(held, Release())
    assert (leases.occupied, leases.occupied_by_lost, leases.is_empty()) == (0, 0, True)


def test_an_answer_answers_all_earlier_heartbeats_and_no_later_one() -> None:
    beats = Beats(0.0)
    for now in (1.0, 2.0, 3.0):
        beats.sent([], now)
    assert [sent for sent, _ in beats.answered(2)] == [1.0, 2.0]
    assert list(beats.answered(2)) == []
    assert beats.basis == 2.0


def test_an_answer_of_an_earlier_session_proves_nothing() -> None:
    beats = Beats(0.0)
    sequence = beats.sent([], 1.0)
    beats.opened(9.0)
    assert list(beats.answered(sequence)) == []
    assert beats.basis == 9.0


def test_waits_stay_between_the_shortest_and_the_longest() -> None:
    backoff = Backoff()
    assert all(SHORTEST <= backoff.next() <= LONGEST for _ in range(100))
    backoff.reset()
    assert backoff.next() <= 2 * SHORTEST


def test_durations_go_to_the_wire_and_back() -> None:
    cases: list[tuple[float | timedelta, int, int]] = [
        (1.5, 1, 500_000_000),
        (timedelta(days=1), 86_400, 0),
        (-1.5, -1, -500_000_000),
    ]
    for given, seconds, nanos in cases:
        assert _wire.to_duration(given) == Duration(seconds=seconds, nanos=nanos)
    assert _wire.from_duration(_wire.to_duration(0.000_001)) == 0.000_001
    assert _wire.from_duration(Duration(seconds=-1)) == 0.0


def test_endpoints_are_read() -> None:
    assert Endpoint.parse("http://[::1]:50051").target == "[::1]:50051"
    assert Endpoint.parse("https://example.org") == Endpoint("https://example.org", "example.org:443", True)


def test_an_error_of_an_item_says_what_a_status_says() -> None:
    item = pb.ItemError(code=5, message="gone", reason=reasons.QUEUE_NOT_FOUND, field="queue")
    error = errors.of_item(item)
    assert isinstance(error, NotFoundError)
    assert (error.code, error.reason) == (grpc.StatusCode.NOT_FOUND, reasons.QUEUE_NOT_FOUND)
    assert error.violations == (errors.FieldViolation("queue", "gone"),)
    assert error.has_no_side_effects()
    assert not error.is_retryable()
    assert str(error) == "gone [QUEUE_NOT_FOUND]"
    assert repr(error) == "<NotFoundError NOT_FOUND: gone [QUEUE_NOT_FOUND]>"


def test_an_error_of_an_item_says_its_violation_once() -> None:
    item = pb.ItemError(code=3, message="key: must not be empty", reason=reasons.INVALID_FIELD, field="key")
    error = errors.of_item(item)
    assert error.violations == (errors.FieldViolation("key", "must not be empty"),)
    assert str(error) == "key: must not be empty [INVALID_FIELD]"


def test_a_superseded_session_is_not_to_be_retried() -> None:
    error = errors.make(grpc.StatusCode.ABORTED, "newer", reason=reasons.SESSION_SUPERSEDED)
    assert not error.is_retryable()
    assert errors.make(grpc.StatusCode.ABORTED, "other").is_retryable()


def test_errors_can_be_sent_to_other_processes() -> None:
    error = errors.make(grpc.StatusCode.UNAVAILABLE, "away", reason="R", retry_after=2.0, broken=True)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.reason, copy.retry_after, str(copy)) == (type(error), "R", 2.0, str(error))
    assert copy.is_retryable()


def test_every_reason_of_the_docs_is_a_constant() -> None:
    import re
    from pathlib import Path

    docs = Path(__file__).parents[3] / "docs" / "errors.md"
    if not docs.exists():  # In a source distribution.
        return
    documented = set(re.findall(r"^\| `([A-Z_]+)` \|", docs.read_text(), re.MULTILINE))
    known = {value for name, value in vars(reasons).items() if name.isupper()}
    assert documented == known
