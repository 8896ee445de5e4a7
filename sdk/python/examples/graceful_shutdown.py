"""Stops cleanly: the first signal drains, the second gives everything back and exits non-zero."""

import asyncio
import logging
import sys

from keywork import Client, Context, Job, Worker, WorkerError


async def handler(context: Context, job: Job) -> None:
    print(f"started {job.key}", flush=True)
    await asyncio.sleep(10)


async def main() -> int:
    async with Client() as client:
        worker = Worker(
            client,
            ["sync"],
            handler,
            concurrency=8,
            # Less than what the orchestrator waits before it kills.
            shutdown_grace=25,
        )
        try:
            await worker.run()
        except WorkerError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


# Without this, only warnings are told.
logging.basicConfig(level=logging.INFO)
sys.exit(asyncio.run(main()))
