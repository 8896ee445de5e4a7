"""How long to wait before the next try."""

from __future__ import annotations

import random

SHORTEST = 0.1
LONGEST = 10.0


class Backoff:
    """Waits with full jitter between 100 ms and a bound that doubles up to 10 s.

    So many clients of a server that went away do not come back at once.
    """

    __slots__ = ("_tries",)

    def __init__(self) -> None:
        self._tries = 0

    def next(self) -> float:
        """The next wait in seconds."""
        self._tries += 1
        bound: float = min(SHORTEST * 2 ** min(self._tries, 10), LONGEST)
        return random.uniform(SHORTEST, bound)

    def reset(self) -> None:
        """The last try worked: the next wait is short again."""
        self._tries = 0


def around(middle: float) -> float:
    """A wait around `middle`: from half of it to half more."""
    return middle * random.uniform(0.5, 1.5)
