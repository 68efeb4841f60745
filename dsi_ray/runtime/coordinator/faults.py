"""Faults: what went wrong with servers lately, for people: in the status and in the log."""

import logging
import time
from collections import deque
from typing import TypedDict

from dsi_ray.core.messages import ServerId

_LOGGER = logging.getLogger(__name__)
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
    """The last faults of a group.

    Args:
        group: Its index.
    """

    def __init__(self, group: int) -> None:
        self._group = group
        self._faults: deque[Fault] = deque(maxlen=_KEPT)

    @property
    def last(self) -> list[Fault]:
        """In order, the oldest first."""
        return list(self._faults)

    def note(self, server: ServerId, error: Exception) -> str:
        """Keeps a fault; returns its name."""
        kind = type(error).__name__
        self._faults.append(Fault(time=time.time(), server=str(server), error=kind))
        self._log(logging.WARNING, server, f"was lost: {kind}")
        return kind

    def hung(self, server: ServerId) -> None:
        """Logs that a server owes news for too long."""
        self._log(logging.WARNING, server, "may hang: its requests go on elsewhere")

    def back(self, server: ServerId) -> None:
        """Logs that a server serves again."""
        self._log(logging.INFO, server, "serves again")

    def _log(self, level: int, server: ServerId, what: str) -> None:
        where = {"group": self._group, "server": str(server)}
        _LOGGER.log(level, "group %d: %s %s", self._group, server, what, extra=where)
