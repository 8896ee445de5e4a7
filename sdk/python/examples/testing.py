"""How a program that uses Keywork is tested: a handler by itself, and the whole against a server in the process."""

import asyncio

from keywork import Context, Fail, Job, Worker
from keywork.testing import FakeServer, job, run_once


async def handler(context: Context, job: Job) -> None:
    if not job.payload:
        raise Fail("the payload is empty")


async def main() -> None:
    assert await run_once(handler, job("mail", "user-7")) == Fail("the payload is empty")

    with FakeServer() as server:
        async with server.client() as client:
            await client.submit("mail", "user-7", payload="hello")
            async with Worker(client, ["mail"], handler):
                await server.until("the job completes", lambda seen: seen.settled("complete") == ["user-7"])


asyncio.run(main())
