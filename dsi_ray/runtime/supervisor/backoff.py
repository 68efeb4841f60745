"""How long to wait between attempts."""

from collections.abc import Iterator
from itertools import chain, repeat


def backoff() -> Iterator[float]:
    """Yields the seconds before each attempt, without end: none before the first, 30 at most."""
    return chain((0, 1, 2, 4, 8, 16), repeat(30))
