"""Faults: what went wrong with servers lately, for people."""

import time
from collections import deque
from typing import TypedDict

from dsi_ray.core.messages import ServerId

_KEPT = 16


class Fault(TypedDict):
    """A server that died, or did not start again.

    Attributes:
        time: Seconds since 1970.
        server: Its name.
        error: What was noticed.
    """

    time: float
    server: str
    error: str


class Faults:
    """The last faults."""

    def __init__(self) -> None:
        self._faults: deque[Fault] = deque(maxlen=_KEPT)

    @property
    def last(self) -> list[Fault]:
        """In order, the oldest first."""
        return list(self._faults)

    def note(self, server: ServerId, error: Exception) -> str:
        """Keeps a fault; returns its name."""
        kind = type(error).__name__
        self._faults.append(Fault(time=time.time(), server=str(server), error=kind))
        return kind
