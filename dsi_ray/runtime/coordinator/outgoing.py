"""Outgoing: what the coordinator has for its servers at one moment, one call for each."""

from dsi_ray.core.messages import Mode, ServerId, Task
from dsi_ray.models.base import Sampling
from dsi_ray.runtime.coordinator.servers import Server
from dsi_ray.runtime.transport.work import Work


class Outgoing:
    """Collects work by server until it is sent."""

    def __init__(self) -> None:
        self._work: dict[ServerId, Work] = {}

    def start(self, task: Task, mode: Mode, sampling: Sampling) -> None:
        """A task to run."""
        self._of(task.server).starts.append((task, mode, sampling))

    def cancel(self, server: ServerId, request: str, task: int) -> None:
        """A task that nobody needs any more."""
        self._of(server).cancels.append((request, task))

    def release(self, server: ServerId, request: str) -> None:
        """A request that the server may forget."""
        self._of(server).releases.append(request)

    def send(self, servers: dict[ServerId, Server]) -> dict[str, float]:
        """Sends everything, new tasks first.

        Returns the messages by request; those for several are shared.
        """
        work, self._work = self._work, {}
        messages: dict[str, float] = {}
        for server_id in sorted(work, key=lambda server_id: not work[server_id].starts):
            server = servers[server_id]
            server.send(work[server_id])
            requests = work[server_id].requests
            for request in requests if server.messages else ():
                messages[request] = messages.get(request, 0.0) + server.messages / len(requests)
        return messages

    def _of(self, server: ServerId) -> Work:
        return self._work.setdefault(server, Work())
