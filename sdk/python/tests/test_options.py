"""Options are checked where they are given: the error names the option, its limit and what was given."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import grpc
import pytest

from keywork import Client, Context, Job, Worker, sync

CLIENT = Client("http://127.0.0.1:1")
SYNC_CLIENT = sync.Client("http://127.0.0.1:1")


def handler(context: Context, job: Job) -> None:
    """Completes."""


async def listens(event: object) -> None:
    """No callback for a thread."""


def make(queues: Any = "q", **options: Any) -> Worker:
    return Worker(options.pop("client", CLIENT), queues, options.pop("handler", handler), **options)


def make_sync(queues: Any = "q", **options: Any) -> sync.Worker:
    return sync.Worker(options.pop("client", SYNC_CLIENT), queues, options.pop("handler", handler), **options)


@pytest.mark.parametrize("worker", [make, make_sync])
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"concurrency": 0}, "concurrency.* 1 to 100,000, and is 0"),
        ({"concurrency": 100_001}, "concurrency.* 1 to 100,000, and is 100001"),
        ({"queues": []}, r"at least one queue, and is \[\]"),
        ({"queues": {}}, "at least one queue"),
        ({"queues": ["a", "b", "a"]}, "each queue once, and has 'a' 2 times"),
        ({"queues": {"a": 0}}, "weight of queue 'a' .* 1 to 100, and is 0"),
        ({"queues": {"a": 101}}, "weight of queue 'a' .* 1 to 100, and is 101"),
        ({"queues": ["\ud800"]}, "queues must be text"),
        ({"shutdown_grace": -1}, "shutdown_grace .* 0 seconds .*, and is -1"),
        ({"cancel_grace": timedelta(seconds=-1)}, "cancel_grace .*, and is datetime"),
        ({"cancel_grace": float("nan")}, "cancel_grace .*, and is nan"),
        ({"worker_id": ""}, "worker_id .* 1 to 256 bytes .*, and is ''"),
        ({"worker_id": "x" * 257}, "worker_id .* 1 to 256 bytes"),
        ({"worker_id": "a\nb"}, "worker_id .* no control characters"),
    ],
)
def test_a_worker_says_what_is_out_of_bounds(worker: Callable[..., Any], options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        worker(**options)


@pytest.mark.parametrize("worker", [make, make_sync])
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"concurrency": "4"}, "concurrency .*, and is '4'"),
        ({"concurrency": 2.5}, r"concurrency .*, and is 2\.5"),
        ({"concurrency": True}, "concurrency .*, and is True"),
        ({"queues": {"a": 1.5}}, "weight of queue 'a'"),
        ({"queues": [7]}, "queues must be names, and has 7"),
        ({"shutdown_grace": "25s"}, "shutdown_grace .*, and is '25s'"),
        ({"worker_id": 7}, "worker_id"),
        ({"client": "http://127.0.0.1:1"}, "client must be a keywork.Client"),
        ({"handler": "reconcile"}, "the handler must be a function"),
        ({"handler": lambda job: None}, r"the handler must take \(context, job\), and takes \(job\)"),
        ({"interceptors": handler}, "interceptors must be a list"),
        ({"interceptors": [handler]}, r"each of interceptors must take \(context, job, following\)"),
        ({"on_event": listens}, "on_event must be a plain function"),
        ({"on_event": lambda: None}, r"on_event must take \(event\)"),
    ],
)
def test_a_worker_says_what_is_of_the_wrong_kind(
    worker: Callable[..., Any], options: dict[str, Any], told: str
) -> None:
    with pytest.raises(TypeError, match=told):
        worker(**options)


def test_what_is_within_the_limits_is_taken() -> None:
    class Object:
        def method(self, context: Context, job: Job) -> None: ...

    for queues in ["q", ["a", "b"], ("a",), {"a": 1, "b": 100}, iter(["a", "b"])]:
        make(queues, concurrency=100_000, shutdown_grace=0, cancel_grace=timedelta(0), worker_id="ü" * 128)
    for one in [Object().method, functools.partial(handler), lambda *both: None, max]:
        make(handler=one)
    make(on_event=print)


@pytest.mark.parametrize("kind", [Client, sync.Client])
def test_a_client_says_what_is_wrong(kind: Callable[..., Any]) -> None:
    for name in ("submit_deadline", "call_timeout"):
        for given in (0, -1, float("nan"), float("inf"), timedelta(0)):
            with pytest.raises(ValueError, match=f"{name} must be more than 0 .*{re.escape(repr(given))}"):
                kind("http://127.0.0.1:1", **{name: given})
        with pytest.raises(TypeError, match=f"{name} must be seconds .*, and is '5'"):
            kind("http://127.0.0.1:1", **{name: "5"})
    with pytest.raises(ValueError, match=r"'authorization' .* printable ASCII, and has '\\n' at 8") as caught:
        kind("http://127.0.0.1:1", metadata={"authorization": "Bearer x\n"})
    assert "Bearer" not in str(caught.value), "it may be a secret"
    with pytest.raises(ValueError, match=r"https:// endpoints, and there is none: http://127\.0\.0\.1:1"):
        kind("http://127.0.0.1:1", credentials=grpc.ssl_channel_credentials())
    with pytest.raises(ValueError, match="and is 'my header'"):
        kind("http://127.0.0.1:1", metadata=[("my header", "x")])
    with pytest.raises(TypeError, match="'tenant' must be a str, and is a int"):
        kind("http://127.0.0.1:1", metadata={"tenant": 5})
