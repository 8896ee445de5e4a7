"""Offers many jobs on one stream, and tells what became of each."""

import asyncio

from keywork import CallError, Client, Submit


async def main() -> None:
    async with Client() as client:
        results = await client.submit_many(Submit("reindex", f"document-{number}") for number in range(10_000))

    accepted = busy = failed = 0
    for result in results:
        if isinstance(result, CallError):
            failed += 1
            print(f"{result} (may be retried: {result.is_retryable()})")
        elif result.accepted:
            accepted += 1
        else:
            busy += 1
    print(f"accepted {accepted}, busy {busy}, failed {failed}")


asyncio.run(main())
