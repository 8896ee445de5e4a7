"""How a trace goes on from a submit to the handler of its job.

A plain interface: it needs no tracing library. `keywork.otel.OpenTelemetry` is it for OpenTelemetry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from contextlib import AbstractContextManager

    from keywork.job import Job
    from keywork.submit import Submit


@runtime_checkable
class Tracing(Protocol):
    """Given to a client as ``tracing``; its workers use it too."""

    def submitting(self, submit: Submit, attributes: MutableMapping[str, str]) -> None:
        """A job is about to be offered: adds the current context (``traceparent``) to the job's attributes."""

    def handling(self, job: Job) -> AbstractContextManager[object]:
        """A handler is about to run: what it runs in, made from the job's attributes.

        How the handler ended passes through it: nothing where the job is done, its error where that is an ordinary one,
        and otherwise the `Outcome` that a worker settles, raised by the handler or returned.
        """
