"""Where handlers wait until the runner ends them."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any

from keywork import Fail, Release, Rerun, Retry


@dataclass
class Finish:
    """How a handler is to end."""

    how: str
    text: str
    delay: float | None

    def end(self) -> None:
        """Ends the handler that calls it."""
        if self.how == "complete":
            return
        errors: dict[str, Any] = {
            "error": RuntimeError(self.text),
            "retry": Retry(self.delay, self.text),
            "fail": Fail(self.text),
            "release": Release(),
            "rerun": Rerun(self.delay or 0.0),
        }
        raise errors[self.how]


class Desk:
    """The handlers that wait, by key, the oldest first. For one event loop."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, deque[asyncio.Future[Finish]]] = defaultdict(deque)

    def wait(self, key: str) -> asyncio.Future[Finish]:
        """Takes a place; what comes out is how to end."""
        place: asyncio.Future[Finish] = asyncio.get_running_loop().create_future()
        self._waiting[key].append(place)
        return place

    def finish(self, key: str, finish: Finish) -> bool:
        """Ends the oldest handler of the key that still waits. False: there is none."""
        places = self._waiting[key]
        while places:
            place = places.popleft()
            # A handler that was cancelled has left its place.
            if not place.done():
                place.set_result(finish)
                return True
        return False
