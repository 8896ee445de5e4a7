"""OpenTelemetry: ``pip install 'keywork[otel]'``, then ``Client(…, tracing=OpenTelemetry())``.

A submit writes the current span's W3C context into the job's attributes; the handler runs in a span whose parent is
that context.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry import propagate, trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation import get_current_span

from keywork.outcomes import Complete, Fail, Outcome, Retry

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping
    from contextlib import AbstractContextManager

    from opentelemetry.propagators.textmap import TextMapPropagator

    from keywork.job import Job
    from keywork.submit import Submit

__all__ = ["OpenTelemetry"]

_OUTCOME = "keywork.outcome"


class OpenTelemetry:
    """A `keywork.tracing.Tracing`.

    `link=True` makes the submitter's span a link instead of the parent, for jobs that start long after their submit.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        propagator: TextMapPropagator | None = None,
        *,
        link: bool = False,
    ) -> None:
        self._tracer = trace.get_tracer("keywork", tracer_provider=tracer_provider)
        self._propagator = propagator
        self._link = link

    def submitting(self, submit: Submit, attributes: MutableMapping[str, str]) -> None:
        """Writes the current context into the attributes, unless they carry one."""
        if "traceparent" in attributes:
            return
        if self._propagator is not None:
            self._propagator.inject(attributes)
        else:
            propagate.inject(attributes)

    def handling(self, job: Job) -> AbstractContextManager[object]:
        """A span of the kind CONSUMER, named after the queue; it tells how the handler ended."""
        return self._span(job)

    @contextmanager
    def _span(self, job: Job) -> Iterator[trace.Span]:
        extract = propagate.extract if self._propagator is None else self._propagator.extract
        parent = extract(job.attributes)
        submitter = get_current_span(parent).get_span_context()
        linked = self._link and submitter.is_valid
        with self._tracer.start_as_current_span(
            f"process {job.queue}",
            context=None if linked else parent,
            kind=SpanKind.CONSUMER,
            links=[Link(submitter)] if linked else None,
            attributes={
                "messaging.system": "keywork",
                "messaging.operation.type": "process",
                "messaging.destination.name": job.queue,
                "messaging.message.id": job.id,
                "keywork.key": job.key,
                "keywork.attempt": job.attempt,
                "keywork.fencing_number": job.fencing_number,
            },
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as error:
                _note(span, error)
                raise
            else:
                span.set_attribute(_OUTCOME, Complete.name)


def _note(span: trace.Span, error: BaseException) -> None:
    if not isinstance(error, Outcome):
        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
        span.set_attribute(_OUTCOME, Retry.name)
        return
    span.set_attribute(_OUTCOME, error.name)
    if isinstance(error, (Retry, Fail)):
        span.set_status(Status(StatusCode.ERROR, error.because if isinstance(error, Retry) else error.reason))
