"""`call`: one call of the client's hand-written API, and the members of its answer that scenarios ask for."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from keywork import (
    Backoff,
    CallError,
    Client,
    Complete,
    DeadJob,
    Fail,
    Job,
    Leased,
    Outcome,
    Queue,
    QueueConfig,
    Release,
    Retry,
    Submitted,
)
from keywork._wire import seconds

Args: TypeAlias = dict[str, Any]
#: The most of a list that is looked at.
PAGE = 1_000


async def get_job(client: Client, args: Args) -> Args:
    job = await client.get_job(args["queue"], args["key"])
    return {"state": ""} if job is None else of_job(job)


async def list_jobs(client: Client, args: Args) -> Args:
    return {"jobs": [of_job(job) for job in await client.list_jobs(args["queue"], page_size=PAGE)]}


async def cancel_job(client: Client, args: Args) -> Args:
    return of_job(await client.cancel_job(args["queue"], args["key"]))


async def create_queue(client: Client, args: Args) -> Args:
    return of_queue(await client.create_queue(args["queue"], config(args)))


async def update_queue(client: Client, args: Args) -> Args:
    return of_queue(await client.update_queue(args["queue"], config(args)))


async def get_queue(client: Client, args: Args) -> Args:
    return of_queue(await client.get_queue(args["queue"]))


async def pause_queue(client: Client, args: Args) -> Args:
    return of_queue(await client.pause_queue(args["queue"]))


async def resume_queue(client: Client, args: Args) -> Args:
    return of_queue(await client.resume_queue(args["queue"]))


async def delete_queue(client: Client, args: Args) -> Args:
    await client.delete_queue(args["queue"], force=True)
    return {}


async def purge_queue(client: Client, args: Args) -> Args:
    return {"purged": await client.purge_queue(args["queue"])}


async def list_queues(client: Client, args: Args) -> Args:
    return {"queues": [of_queue(queue) for queue in await client.list_queues(page_size=PAGE)]}


async def list_dead_jobs(client: Client, args: Args) -> Args:
    dead = await client.list_dead_jobs(args["queue"], page_size=PAGE)
    return {"jobs": [{"key": one.job.key, "reason": named(one.reason)} for one in dead]}


async def redrive_dead_jobs(client: Client, args: Args) -> Args:
    dead = await dead_jobs(client, args)
    redriven = await client.redrive_dead_jobs(args["queue"], [one.dead_id for one in dead])
    return {"outcomes": [outcome_or_reason(one.result) for one in redriven]}


async def delete_dead_jobs(client: Client, args: Args) -> Args:
    dead = await dead_jobs(client, args)
    return {"deleted": await client.delete_dead_jobs(args["queue"], [one.dead_id for one in dead])}


async def pull(client: Client, args: Args) -> Args:
    jobs = await client.pull(args["queue"], max_jobs=args.get("max_jobs", 1), wait=args.get("wait_ms", 0) / 1_000)
    return {"jobs": [of_lease(lease) for lease in jobs]}


async def heartbeat(client: Client, args: Args) -> Args:
    results = await client.heartbeat([token(text) for text in args["tokens"]])
    lost = [one for one in results if one.lost is not None]
    return {"renewed": sum(one.extended for one in results), "lost": len(lost)}


async def ack(client: Client, args: Args) -> Args:
    [settled] = await client.ack([(token(args["token"]), settlement(args))])
    return {"outcome": named(settled.outcome)}


CALLS: dict[str, Callable[[Client, Args], Awaitable[Args]]] = {
    call.__name__: call
    for call in (
        get_job,
        list_jobs,
        cancel_job,
        create_queue,
        update_queue,
        get_queue,
        pause_queue,
        resume_queue,
        delete_queue,
        purge_queue,
        list_queues,
        list_dead_jobs,
        redrive_dead_jobs,
        delete_dead_jobs,
        pull,
        heartbeat,
        ack,
    )
}


async def dead_jobs(client: Client, args: Args) -> list[DeadJob]:
    """The dead letters of the keys that are meant."""
    dead = await client.list_dead_jobs(args["queue"], page_size=PAGE)
    return [one for one in dead if one.job.key in args["keys"]]


def config(args: Args) -> QueueConfig:
    def duration(name: str) -> float | None:
        return args[name] / 1_000 if name in args else None

    wait = duration("backoff_ms")
    return QueueConfig(
        lease_duration=duration("lease_duration_ms"),
        max_attempts=args.get("max_attempts"),
        max_depth=args.get("max_depth"),
        disconnect_grace=duration("disconnect_grace_ms"),
        backoff=None if wait is None else Backoff(wait, wait),
    )


def settlement(args: Args) -> Outcome:
    delay = args["delay_ms"] / 1_000 if "delay_ms" in args else None
    text = args.get("text", "")
    how = args["with"]
    if how in ("retry", "error"):
        return Retry(delay, text)
    return {"complete": Complete(), "release": Release(), "fail": Fail(text)}[how]


def token(text: str) -> bytes:
    """A token that is no Base64 is sent as the bytes that it is: the server is to refuse it."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return text.encode()


def named(value: Any) -> str:
    """A name as the contract has it."""
    return "" if value.name == "UNKNOWN" else str(value.name)


def outcome_or_reason(result: Submitted | CallError) -> str:
    return result.outcome.name if isinstance(result, Submitted) else result.reason


def of_job(job: Job) -> Args:
    return {"key": job.key, "id": job.id, "state": named(job.state), "attempt": job.attempt}


def of_queue(queue: Queue) -> Args:
    return {
        "queue": queue.name,
        "lease_duration_ms": round(seconds(queue.config.lease_duration or 0) * 1_000),
        "max_attempts": queue.config.max_attempts,
        "paused": queue.paused,
    }


def of_lease(lease: Leased) -> Args:
    return {
        "key": lease.job.key,
        "token": base64.b64encode(lease.token).decode(),
        "fencing_number": lease.job.fencing_number,
        "attempt": lease.job.attempt,
    }
