"""Watch: which servers owe news for longer than anything that they compute can take."""

from collections.abc import Mapping

from dsi_ray.core.messages import Role, ServerId, Task
from dsi_ray.core.planning.performance_model import PerformanceModel

_TIMES = 4.0
"""A server may take this many times what is expected of it."""

_LEAST_S = 2.0
"""A busy machine may keep any process waiting for as long: that is no hang."""

_PREFILL_TOKENS = 64
"""A prefill takes a forward for so many tokens at most, or else what was measured."""


class HangDetector:
    """Finds the servers that hang.

    Nothing is noted at an event but that there was one: it is asked now and then, and a silence
    begins when it is first asked about it.
    """

    def __init__(self) -> None:
        self._silent_since: dict[ServerId, float] = {}

    def hear(self, server: ServerId) -> None:
        """There was news from a server."""
        self._silent_since.pop(server, None)

    def overdue(self, now: float, owed: Mapping[ServerId, float]) -> dict[ServerId, float]:
        """The servers that are silent for too long, and how long they were given, in seconds.

        Args:
            now: In seconds, on any clock.
            owed: The servers that owe news, and within how many seconds they are expected to
                bring some.
        """
        self._silent_since = {server: self._silent_since.get(server, now) for server in owed}
        given = {server: max(_LEAST_S, _TIMES * seconds) for server, seconds in owed.items()}
        return {
            server: seconds
            for server, seconds in given.items()
            if now - self._silent_since[server] > seconds
        }


def expected_seconds(task: Task, pace: PerformanceModel) -> float:
    """Until a task reports, if its server has nothing of its path and computes nothing else."""
    forward = pace.target if task.server.role is Role.TARGET else pace.drafter
    tokens = len(task.tokens)
    prefill = 1 + tokens / _PREFILL_TOKENS
    if pace.cost is not None:
        prefill = max(prefill, pace.cost(tokens) / pace.cost(1))
    return forward * (prefill + task.report)
