"""A first program: offers one job, runs jobs until SIGTERM or Ctrl-C."""

import asyncio

from keywork import Client, Context, Job, Worker


async def handler(context: Context, job: Job) -> None:
    print(f"{job.key}, attempt {job.attempt}", flush=True)


async def main() -> None:
    async with Client() as client:
        await client.submit("reconcile", "cluster-eu-1", payload="v1")
        await Worker(client, ["reconcile"], handler).run()


asyncio.run(main())
