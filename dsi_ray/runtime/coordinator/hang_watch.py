"""Watchman: notices servers that hang, and starts those again that do not come to themselves."""

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence

import ray

from dsi_ray.core.group.group import Group
from dsi_ray.core.group.request_state import RoutedCommand
from dsi_ray.core.messages import ServerId
from dsi_ray.runtime.coordinator.faults import Faults
from dsi_ray.runtime.coordinator.servers import Server
from dsi_ray.runtime.process.background import Background

_TICK_S = 0.5
_PATIENCE = 10.0
"""A suspected server is killed after this many times what it was given for its news."""


class HangWatch:
    """Watches the servers of one group.

    Args:
        group: Told who is suspected and who is back.
        servers: Those that live now; kept up to date by the coordinator.
        lost: Those of which it hears nothing; likewise.
        execute: Carries out what the group says.
        faults: Told of what it finds.

    Attributes:
        suspected: The servers from which no sign of life has come yet.
    """

    def __init__(
        self,
        group: Group,
        servers: Mapping[ServerId, Server],
        lost: Container[ServerId],
        execute: Callable[[Sequence[RoutedCommand]], None],
        faults: Faults,
    ) -> None:
        self.suspected: set[ServerId] = set()
        self._group = group
        self._servers = servers
        self._lost = lost
        self._execute = execute
        self._faults = faults
        self._background = Background()

    async def watch(self) -> None:
        """Looks after the servers as long as it runs.

        Time is counted in ticks: that this process itself had to wait accuses no server.
        """
        now = 0.0
        while True:
            await asyncio.sleep(_TICK_S)
            now += _TICK_S
            for server_id, given in self._group.overdue(now).items():
                # Again at every tick: the last target server is given up once there is another.
                self._execute(self._group.suspect(server_id))
                if server_id not in self.suspected:
                    self.suspected.add(server_id)
                    self._faults.hung(server_id)
                    self._servers[server_id].cancel_branches()
                    self._background.start(self._wait_for(server_id, _PATIENCE * given))

    async def _wait_for(self, server_id: ServerId, seconds: float) -> None:
        """Gives a suspected server work again as soon as it answers; kills it if it does not."""
        server = self._servers[server_id]
        answer = asyncio.ensure_future(server.probe())
        await asyncio.wait({answer}, timeout=seconds)
        if not answer.done():
            server.kill()
        try:
            await answer
        except ray.exceptions.RayError:
            # It died. The coordinator, who heard that too, starts another.
            return
        finally:
            self.suspected.discard(server_id)
        if server_id in self._lost:
            # Its lane ended meanwhile: the coordinator opens another.
            return
        self._faults.back(server_id)
        self._execute(self._group.restore(server_id))
