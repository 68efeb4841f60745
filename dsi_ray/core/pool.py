"""TargetPool: which target servers serve which request."""

from collections.abc import Iterable

from dsi_ray.core.messages import ServerId


class TargetPool:
    """Shares the target servers among requests: each gets those with the fewest others.

    Every server may serve several requests; it computes their forwards in turn.
    """

    def __init__(self, servers: Iterable[ServerId]) -> None:
        self._load = dict.fromkeys(servers, 0)
        self._assigned: dict[str, list[ServerId]] = {}

    @property
    def size(self) -> int:
        """The largest SP degree that a request can have."""
        return len(self._load)

    def assign(self, request: str, sp_degree: int) -> list[ServerId]:
        """Reserves servers for a request, ``sp_degree`` of them or all there are."""
        if request in self._assigned:
            raise ValueError(f"request {request} already has target servers")
        servers = sorted(self._load, key=lambda server: (self._load[server], server))[:sp_degree]
        for server in servers:
            self._load[server] += 1
        self._assigned[request] = servers
        return servers

    def release(self, request: str) -> None:
        """Ends a request's reservation; one without is fine."""
        for server in self._assigned.pop(request, ()):
            if server in self._load:
                self._load[server] -= 1

    def lose(self, server: ServerId) -> None:
        """Takes a server out for good."""
        self._load.pop(server, None)
