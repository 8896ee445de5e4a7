"""A trace goes on from the submit to the handler."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support import Log

from keywork import Context, Fail, Job, Submit, Tracing, Worker, sync
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
    assert handling.name == "q process"
    assert handling.parent is not None
    assert submitting.context is not None
    assert handling.context is not None
    assert handling.parent.span_id == submitting.context.span_id
    assert handling.context.trace_id == submitting.context.trace_id
    assert inside.all() == [handling.context.span_id], "the handler runs in it"


def test_a_link_and_an_error(server: FakeServer, spans: tuple[TracerProvider, InMemorySpanExporter]) -> None:
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
    assert handling.status.description == "no use"
