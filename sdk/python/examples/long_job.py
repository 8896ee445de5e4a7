"""A job that takes longer than its lease: heartbeats are sent for it, and it stops when the lease is lost."""

import asyncio

from keywork import Client, Context, Fail, Job, Worker


async def rebuild(context: Context, job: Job) -> None:
    try:
        steps = int(job.payload)
    except ValueError as error:
        raise Fail(f"the payload is no number of steps: {error}") from error
    try:
        for step in range(steps):
            # What is written carries the fencing number, so that a late write of an older lease can be refused.
            print(f"{job.key} step {step}, fencing number {job.fencing_number}", flush=True)
            await asyncio.sleep(1)
    except asyncio.CancelledError:
        # Somebody else may be about to run this job: leave everything as it is.
        print(f"{job.key} stopped: {context.reason}", flush=True)
        raise


async def main() -> None:
    async with Client() as client:
        await Worker(client, ["rebuild"], rebuild).run()


asyncio.run(main())
