"""A whole group in virtual time: many requests on the servers of one group."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dsi_ray.core.group.group import Group
from dsi_ray.core.group.request_state import Job, RoutedCommand
from dsi_ray.core.messages import Emit, Event, Fail, Release, Role, ServerId
from dsi_ray.core.planning.performance_model import PerformanceModel
from dsi_ray.experiments.virtual.virtual_time import VirtualModel, VirtualServers


@dataclass(slots=True)
class Served:
    """What one request got.

    Attributes:
        arrived: When it came.
        tokens: Committed tokens.
        first: When the first was committed.
        last: When the last was.
        error: Why it failed, if it did.
    """

    arrived: float
    tokens: list[int] = field(default_factory=list)
    first: float = 0.0
    last: float = 0.0
    error: str | None = None


class VirtualGroup(VirtualServers):
    """Runs a group until every request that arrived is over.

    Args:
        models: A model for each server of the group.
        pace: What the group's planner knows.
        message: As for :class:`VirtualServers`.
        chunk: Most tokens of prefill in a forward.

    Attributes:
        group: The group.
        served: What each request got.
    """

    def __init__(
        self,
        models: dict[ServerId, VirtualModel],
        pace: PerformanceModel,
        message: Callable[[], float] = lambda: 0.0,
        chunk: int = 256,
    ) -> None:
        super().__init__(models, message, chunk)
        targets = [server for server in models if server.role is Role.TARGET]
        drafters = [server for server in models if server.role is Role.DRAFTER]
        self.group = Group(targets, drafters, pace)
        self.served: dict[str, Served] = {}

    def arrive(self, time: float, job: Job) -> None:
        """Lets a request come at ``time``."""

        self._at(time, lambda: self._admit(job))

    def __call__(self) -> dict[str, Served]:
        """Lets time pass until everything has ended."""
        self._drain()
        return self.served

    def _admit(self, job: Job) -> None:
        self.served[job.id] = Served(self._now)
        self._obey(self.group.admit(job)[1])

    def _handle(self, events: list[Event]) -> None:
        self._obey(self.group.handle(events))

    def _obey(self, said: Sequence[RoutedCommand]) -> None:
        self._execute([command for _, command in said])
        for member, command in said:
            served = self.served[member.job.id]
            match command:
                case Emit(tokens, _):
                    served.first = served.first or self._now
                    served.last = self._now
                    served.tokens += tokens
                case Fail(error):
                    served.error = error
                case Release(servers):
                    for server in servers:
                        self._release(server, member.job.id)
