"""The worker-under-test of the Python SDK: see tests/conformance/README.md."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import sys
import threading
import time
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from typing import Any

from keywork import (
    CallError,
    Client,
    Context,
    Event,
    Job,
    Next,
    OnConflict,
    Submit,
    SubmitNext,
    SubmitOutcome,
    Submitted,
    Worker,
    WorkerError,
    WorkerForcedError,
    WorkerRefusedError,
    WorkerSupersededError,
    __version__,
    events,
)
from keywork.otel import OpenTelemetry
from opentelemetry import context as otel_context
from opentelemetry import propagate, trace
from opentelemetry.sdk.trace import TracerProvider

from calls import CALLS, outcome_or_reason
from desk import Desk, Finish

CAPABILITIES = [
    "worker",
    "submit",
    "submit_many",
    "call",
    "burn",
    "settled_event",
    "signals",
    "interceptors",
    "trace",
    "sync",
]
PAYLOAD = b"x" * 256
STATES: dict[type[Event], str] = {
    events.Connecting: "connecting",
    events.Ready: "ready",
    events.Degraded: "degraded",
    events.Draining: "draining",
    events.Stopped: "stopped",
}

_writing = threading.Lock()


def emit(event: str, call: str | None = None, **members: Any) -> None:
    """Writes one event."""
    if call is not None:
        members["call"] = call
    with _writing:
        sys.stdout.write(json.dumps({"event": event, **members}) + "\n")
        sys.stdout.flush()


def refuse(call: str, code: str, message: str) -> None:
    """A command that is not carried out."""
    emit("error", call, code=code, reason="", retryable=False, no_side_effects=True, fields=[], message=message)


def fault(call: str, error: CallError) -> None:
    """A call that failed."""
    emit(
        "error",
        call,
        code=error.code.name,
        reason=error.reason,
        retryable=error.is_retryable(),
        no_side_effects=error.has_no_side_effects(),
        fields=[violation.field for violation in error.violations],
        message=str(error),
    )


class Traces(OpenTelemetry):
    """Spans for what the runner traces only: they cost throughput."""

    def handling(self, job: Job) -> AbstractContextManager[Any]:
        """A span where there is a trace to go on with."""
        return super().handling(job) if "traceparent" in job.attributes else contextlib.nullcontext()


class Handlers:
    """What runs jobs, as the runner chose."""

    def __init__(self, usual: str, desk: Desk) -> None:
        self._usual = usual
        self._desk = desk

    async def handle(self, context: Context, job: Job) -> None:
        kind = job.attributes.get("handler", self._usual)
        if kind == "complete":
            return
        tell_started(context, job)
        if kind == "throw":
            emit("ended", **named(job))
            raise RuntimeError("thrown")
        if kind == "burn":
            burn(int(job.attributes.get("ms", "0")) / 1_000)
            emit("ended", **named(job))
            return
        await self._wait(context, job, deaf=kind == "deaf")

    async def _wait(self, context: Context, job: Job, *, deaf: bool) -> None:
        place = self._desk.wait(job.key)
        try:
            finish = await (asyncio.shield(place) if deaf else place)
        except asyncio.CancelledError:
            emit("cancelled", **named(job), reason=context.reason.name if context.reason else "")
            if not deaf:
                raise RuntimeError("stopped before the end") from None
            finish = await place
        emit("ended", **named(job))
        finish.end()


def burn(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def named(job: Job) -> dict[str, Any]:
    return {"key": job.key, "job": job.id, "fencing": job.fencing_number}


def tell_started(context: Context, job: Job) -> None:
    span = trace.get_current_span().get_span_context()
    traced = {"trace_id": f"{span.trace_id:032x}"} if span.is_valid else {}
    emit(
        "started",
        queue=job.queue,
        **named(job),
        attempt=job.attempt,
        payload=job.payload.decode(errors="replace"),
        attributes=job.attributes,
        left_ms=round(context.time_left() * 1_000),
        **traced,
    )


class Program:
    """What the runner's commands do."""

    def __init__(self) -> None:
        self._desk = Desk()
        self._tracing = Traces(TracerProvider())
        self._client: Client | None = None
        self._worker: Worker | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.over: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def command(self, line: str) -> None:
        """Carries one out; what takes time runs beside the next."""
        try:
            command = json.loads(line)
            call = str(command.get("call", ""))
        except (ValueError, AttributeError) as error:
            refuse("", "UNSUPPORTED", str(error))
            return
        method = getattr(self, f"do_{command.get('do')}", None)
        if method is None:
            refuse(call, "UNSUPPORTED", "there is no such command")
            return
        task = asyncio.ensure_future(self._carry_out(method, call, command))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, method: Any, call: str, command: dict[str, Any]) -> None:
        try:
            await method(call, command)
        except CallError as error:
            fault(call, error)
        except (LookupError, ValueError, TypeError) as error:
            refuse(call, "UNSUPPORTED", repr(error))

    @property
    def client(self) -> Client:
        if self._client is None:
            raise ValueError("connect comes first")
        return self._client

    @property
    def worker(self) -> Worker:
        if self._worker is None:
            raise ValueError("start comes first")
        return self._worker

    async def do_connect(self, call: str, command: dict[str, Any]) -> None:
        limits = {
            name: command[f"{name}_ms"] / 1_000
            for name in ("submit_deadline", "call_timeout")
            if f"{name}_ms" in command
        }
        interceptors = [around_submit] if command.get("interceptors") else []
        self._client = Client(*command["endpoints"], tracing=self._tracing, interceptors=interceptors, **limits)
        emit("connected", call)

    async def do_start(self, call: str, command: dict[str, Any]) -> None:
        usual = command.get("handler", "wait")
        if usual not in ("wait", "complete", "throw", "burn", "deaf"):
            raise ValueError(f"there is no handler {usual}")
        queues = {
            q if isinstance(q, str) else q["queue"]: 1 if isinstance(q, str) else q["weight"] for q in command["queues"]
        }
        options: dict[str, Any] = {name: command[name] for name in ("concurrency", "worker_id") if name in command}
        if "shutdown_grace_ms" in command:
            options["shutdown_grace"] = command["shutdown_grace_ms"] / 1_000
        self._worker = Worker(
            self.client,
            queues,
            Handlers(usual, self._desk).handle,
            interceptors=[around_handler] if command.get("interceptors") else [],
            on_event=lambda event: tell(event, quiet=usual == "complete"),
            **options,
        )
        self.over.set_result(await run(self._worker))

    async def do_submit(self, call: str, command: dict[str, Any]) -> None:
        options: dict[str, Any] = {
            name: command[name] for name in ("attributes", "request_id", "max_attempts") if name in command
        }
        if "on_conflict" in command:
            options["on_conflict"] = OnConflict[command["on_conflict"]]
        if "delay_ms" in command:
            options["delay"] = command["delay_ms"] / 1_000
        if "expires_in_ms" in command:
            left = timedelta(milliseconds=command["expires_in_ms"])
            options["expires_at"] = datetime.now(timezone.utc) + left
        if "traceparent" in command:
            otel_context.attach(propagate.extract({"traceparent": command["traceparent"]}))
        payload = command.get("payload", "")
        submitted = await self.client.submit(command["queue"], command["key"], payload, **options)
        job = submitted.job
        emit("submitted", call, outcome=submitted.outcome.name, job=job.id, state=job.state.name)

    async def do_submit_many(self, call: str, command: dict[str, Any]) -> None:
        payload = command.get("payload", "")
        submits = [Submit(command["queue"], key, payload) for key in command["keys"]]
        results = await self.client.submit_many(submits)
        emit("submitted_many", call, outcomes=[outcome_or_reason(result) for result in results])

    async def do_throughput(self, call: str, command: dict[str, Any]) -> None:
        begun = time.monotonic()
        submits = (Submit(command["queue"], f"{command['prefix']}-{n}", PAYLOAD) for n in range(command["jobs"]))
        created = 0
        async for _, result in self.client.submit_stream(submits):
            created += isinstance(result, Submitted) and result.outcome is SubmitOutcome.CREATED
        emit("submitted_many", call, created=created, ms=round((time.monotonic() - begun) * 1_000))

    async def do_finish(self, call: str, command: dict[str, Any]) -> None:
        delay = command["delay_ms"] / 1_000 if "delay_ms" in command else None
        if command["with"] not in ("complete", "error", "retry", "fail", "release", "rerun"):
            raise ValueError(f"there is no end {command['with']}")
        finish = Finish(command["with"], command.get("text", ""), delay)
        if not self._desk.finish(command["key"], finish):
            refuse(call, "NOT_WAITING", "no handler of this key waits")

    async def do_drain(self, call: str, command: dict[str, Any]) -> None:
        self.worker.drain()

    async def do_release_all(self, call: str, command: dict[str, Any]) -> None:
        self.worker.release_all()

    async def do_healthy(self, call: str, command: dict[str, Any]) -> None:
        emit("healthy", call, value=self.worker.healthy())

    async def do_stats(self, call: str, command: dict[str, Any]) -> None:
        counts = self.worker.counts()
        emit(
            "stats",
            call,
            started=counts.started,
            settled=counts.settled,
            leases_lost=counts.leases_lost,
            dropped_results=counts.dropped_results,
            sessions=counts.sessions,
        )

    async def do_call(self, call: str, command: dict[str, Any]) -> None:
        result = await CALLS[command["rpc"]](self.client, command.get("args", {}))
        emit("answered", call, result=result)

    async def do_exit(self, call: str, command: dict[str, Any]) -> None:
        os._exit(0)


async def run(worker: Worker) -> int:
    """Runs until a signal, as a user's program does, and says how it ended; gives the exit code."""
    try:
        await worker.run()
    except WorkerError as error:
        emit("stopped", ok=False, code=code(error), message=str(error))
        return 1
    emit("stopped", ok=True, code="", message="")
    return 0


def code(error: WorkerError) -> str:
    if isinstance(error, WorkerRefusedError):
        return error.error.code.name
    names: dict[type[WorkerError], str] = {WorkerSupersededError: "SUPERSEDED", WorkerForcedError: "FORCED"}
    return names.get(type(error), "INTERNAL")


def tell(event: Event, *, quiet: bool) -> None:
    """What the SDK's `on_event` says."""
    if type(event) in STATES:
        emit("state", state=STATES[type(event)])
    elif isinstance(event, events.LeaseLost):
        emit("lease_lost", queue=event.queue, key=event.key, reason=event.reason.name if event.reason else "")
    elif isinstance(event, events.Settled) and not quiet:
        emit("settled", key=event.key, job=event.job_id, fencing=event.fencing_number, outcome=event.outcome.name)


async def around_submit(submit: Submit, following: SubmitNext) -> Submitted:
    emit("intercepted", what="submit", when="before", key=submit.key)
    try:
        return await following(submit)
    finally:
        emit("intercepted", what="submit", when="after", key=submit.key)


async def around_handler(context: Context, job: Job, following: Next) -> object:
    emit("intercepted", what="handler", when="before", key=job.key)
    try:
        return await following(context, job)
    finally:
        emit("intercepted", what="handler", when="after", key=job.key)


def read(program: Program, loop: asyncio.AbstractEventLoop) -> None:
    """Reads commands on a thread of its own; the end of stdin is the end of the process."""
    for line in sys.stdin:
        loop.call_soon_threadsafe(program.command, line)
    os._exit(0)


async def main() -> int:
    emit(
        "hello",
        sdk="python",
        version=__version__,
        runtime=f"{platform.python_implementation()} {platform.python_version()}",
        capabilities=CAPABILITIES,
    )
    if "--list-capabilities" in sys.argv:
        return 0
    program = Program()
    threading.Thread(target=read, args=(program, asyncio.get_running_loop()), daemon=True).start()
    return await program.over


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
