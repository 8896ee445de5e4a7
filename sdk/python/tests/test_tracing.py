"""A trace goes on from the submit to the handler."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support import Log

from keywork import Context, Fail, Job, Release, Rerun, Retry, Submit, Submitted, Tracing, Worker, sync
from keywork.otel import OpenTelemetry
from keywork.testing import FakeServer


class Plain:
    """Tracing without a library."""

    def __init__(self) -> None:
        self.log: Log[str] = Log()

    def submitting(self, submit: Submit, attributes: MutableMapping[str, str]) -> None:
        attributes["traceparent"] = f"trace-of-{submit.key}"

    @contextmanager
    def handling(self, job: Job) -> Iterator[None]:
        self.log.add(f"begin {job.attributes['traceparent']}")
        yield
        self.log.add("end")


async def test_a_plain_tracing_sees_submits_and_handlers(server: FakeServer) -> None:
    tracing = Plain()
    assert isinstance(tracing, Tracing)

    async def handler(context: Context, job: Job) -> None:
        tracing.log.add("handler")

    async with server.client(tracing=tracing) as client:
        await client.submit("q", "a", attributes={"own": "1"})
        async with Worker(client, ["q"], handler):
            await server.until("the end", lambda seen: seen.settled("complete") == ["a"])
        await client.submit_many([Submit("q", "b")])
        await client.submit_batch([Submit("q", "c")])
    assert tracing.log.all() == ["begin trace-of-a", "handler", "end"]
    found = server.outstanding("q", "c")
    assert found is not None
    assert found.attributes == {"traceparent": "trace-of-c"}


@pytest.fixture
def spans() -> Iterator[tuple[TracerProvider, InMemorySpanExporter]]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider, exporter
    provider.shutdown()


@pytest.mark.parametrize("plain", [False, True])
async def test_the_handlers_span_is_a_child_of_the_submitters(
    server: FakeServer, spans: tuple[TracerProvider, InMemorySpanExporter], plain: bool
) -> None:
    provider, exporter = spans
    inside: Log[int] = Log()

    def plain_handler(context: Context, job: Job) -> None:
        inside.add(trace.get_current_span().get_span_context().span_id)

    async def async_handler(context: Context, job: Job) -> None:
        plain_handler(context, job)

    async with server.client(tracing=OpenTelemetry(provider)) as client:
        with trace.get_tracer("test", tracer_provider=provider).start_as_current_span("submitting"):
            await client.submit("q", "a")
        async with Worker(client, ["q"], plain_handler if plain else async_handler):
            await server.until("the end", lambda seen: seen.settled("complete") == ["a"])
    submitting, handling = exporter.get_finished_spans()
    assert handling.name == "process q"
    assert handling.parent is not None
    assert submitting.context is not None
    assert handling.context is not None
    assert handling.parent.span_id == submitting.context.span_id
    assert handling.context.trace_id == submitting.context.trace_id
    assert inside.all() == [handling.context.span_id], "the handler runs in it"


def test_a_link_instead_of_a_parent(server: FakeServer, spans: tuple[TracerProvider, InMemorySpanExporter]) -> None:
    provider, exporter = spans

    def fails(context: Context, job: Job) -> None:
        raise Fail("no use")

    with server.sync_client(tracing=OpenTelemetry(provider, link=True)) as client:
        with trace.get_tracer("test", tracer_provider=provider).start_as_current_span("submitting"):
            client.submit("q", "a")
        with sync.Worker(client, ["q"], fails):
            server.wait_until("the end", lambda seen: seen.settled("fail") == ["a"])
    submitting, handling = exporter.get_finished_spans()
    assert handling.parent is None
    assert submitting.context is not None
    assert [link.context.span_id for link in handling.links] == [submitting.context.span_id]


@pytest.mark.parametrize("kind", ["async", "plain", "sync"])
def test_the_span_tells_how_the_handler_ended(
    server: FakeServer, spans: tuple[TracerProvider, InMemorySpanExporter], kind: str
) -> None:
    provider, exporter = spans
    ends: dict[str, object] = {
        "complete": None,
        "returned": Retry(0, "returned"),
        "retry": Retry(0, "raised"),
        "fail": Fail("no use"),
        "release": Release(),
        "rerun": Rerun(1),
        "error": ValueError("broke"),
    }

    def ended(context: Context, job: Job) -> object:
        end = ends.pop(job.key, None)
        if isinstance(end, Exception) and job.key != "returned":
            raise end
        return end

    async def ended_async(context: Context, job: Job) -> object:
        return ended(context, job)

    handler: Any = ended_async if kind == "async" else ended
    with server.sync_client(tracing=OpenTelemetry(provider)) as client:
        results = client.submit_batch([Submit("q", key) for key in ends])
        if kind == "sync":
            with sync.Worker(client, "q", handler):
                server.wait_until("all", lambda seen: len(seen.settled("complete")) == 6)
        else:
            asyncio.run(_run(server, client, handler))
    first = {}
    for span in reversed(exporter.get_finished_spans()):
        attributes = dict(span.attributes or {})
        first[str(attributes["keywork.key"])] = span, attributes
    told = {
        key: (attributes["keywork.outcome"], span.status.status_code.name, span.status.description)
        for key, (span, attributes) in first.items()
    }
    assert told == {
        "complete": ("complete", "UNSET", None),
        "returned": ("retry", "ERROR", "returned"),
        "retry": ("retry", "ERROR", "raised"),
        "fail": ("fail", "ERROR", "no use"),
        "release": ("release", "UNSET", None),
        "rerun": ("rerun", "UNSET", None),
        "error": ("retry", "ERROR", "ValueError: broke"),
    }
    assert {key for key, (span, _) in first.items() if span.events} == {"error"}, "an exception is recorded"
    span, attributes = first["complete"]
    created = results[0]
    assert isinstance(created, Submitted)
    fencing = attributes.pop("keywork.fencing_number")
    assert isinstance(fencing, int)
    assert fencing > 0
    assert span.kind is trace.SpanKind.CONSUMER
    assert attributes == {
        "messaging.system": "keywork",
        "messaging.operation.type": "process",
        "messaging.destination.name": "q",
        "messaging.message.id": created.job.id,
        "keywork.key": "complete",
        "keywork.attempt": 1,
        "keywork.outcome": "complete",
    }


async def _run(server: FakeServer, client: sync.Client, handler: Any) -> None:
    async with (
        server.client(tracing=client._tracing) as other,
        Worker(other, "q", handler),
    ):
        await server.until("all", lambda seen: len(seen.settled("complete")) == 6)


async def test_a_handler_that_a_stop_ended_is_a_release_in_its_span(
    server: FakeServer, spans: tuple[TracerProvider, InMemorySpanExporter]
) -> None:
    provider, exporter = spans
    started = asyncio.Event()

    async def waits(context: Context, job: Job) -> None:
        started.set()
        await asyncio.Event().wait()

    async with server.client(tracing=OpenTelemetry(provider)) as client:
        await client.submit("q", "a")
        async with Worker(client, "q", waits, shutdown_grace=0):
            await started.wait()
    [span] = exporter.get_finished_spans()
    assert span.attributes is not None
    assert (span.attributes["keywork.outcome"], span.status.status_code.name) == ("release", "UNSET")


async def test_a_submit_makes_no_span_and_keeps_the_context_that_it_carries(
    server: FakeServer, spans: tuple[TracerProvider, InMemorySpanExporter]
) -> None:
    provider, exporter = spans
    carried = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with server.client(tracing=OpenTelemetry(provider)) as client:
        with trace.get_tracer("test", tracer_provider=provider).start_as_current_span("submitting"):
            await client.submit("q", "a", attributes={"traceparent": carried})
            await client.submit_many([Submit("q", "b")])
    assert [span.name for span in exporter.get_finished_spans()] == ["submitting"]
    kept, new = server.outstanding("q", "a"), server.outstanding("q", "b")
    assert kept is not None
    assert new is not None
    assert kept.attributes["traceparent"] == carried
    assert new.attributes["traceparent"] != carried


@pytest.mark.parametrize("plain", [False, True])
async def test_a_tracing_that_fails_costs_no_job(server: FakeServer, plain: bool) -> None:
    class Broken:
        def submitting(self, submit: Submit, attributes: MutableMapping[str, str]) -> None: ...

        @contextmanager
        def handling(self, job: Job) -> Iterator[None]:
            if job.key == "begin":
                raise RuntimeError("no span")
            yield
            raise RuntimeError("no end")

    def plain_handler(context: Context, job: Job) -> None: ...

    async def async_handler(context: Context, job: Job) -> None: ...

    async with server.client(tracing=Broken()) as client:
        await client.submit("q", "begin")
        await client.submit("q", "end")
        async with Worker(client, "q", plain_handler if plain else async_handler):
            await server.until("both", lambda seen: len(seen.settled("complete")) == 2)
