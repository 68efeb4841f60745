"""Groups: which DSI group serves a request."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from dsi_ray.runtime.client.group_handle import GroupHandle
from dsi_ray.runtime.client.router import Router
from dsi_ray.runtime.errors import GroupLost, GroupUnreachable
from dsi_ray.runtime.supervisor.group_directory import GroupDirectory, Standing
from dsi_ray.runtime.trace.spans import Trace
from dsi_ray.runtime.transport.costs import MessageCosts


class Groups:
    """The groups, wherever they are hosted, and the router before them. For many threads.

    Args:
        roster: How they stand; :meth:`update` tells of changes.

    Attributes:
        info: Facts about each of them.
    """

    def __init__(self, roster: GroupDirectory) -> None:
        self.info = roster.info
        self._standing: Sequence[Standing] = roster.groups
        self._handles = [GroupHandle(group.coordinator, self.info) for group in roster.groups]
        self._router = Router(len(roster.groups))
        for index, group in enumerate(roster.groups):
            if group.error is not None:
                self._router.exclude(index)
        # Over all of these.
        self._lock = threading.Lock()

    def update(self, roster: GroupDirectory) -> None:
        """Takes note of how the groups stand now."""
        with self._lock:
            before, self._standing = self._standing, roster.groups
            for index, (old, new) in enumerate(zip(before, roster.groups, strict=True)):
                if new.coordinator != old.coordinator:
                    self._handles[index] = GroupHandle(new.coordinator, self.info)
                if new.error is not None:
                    self._router.exclude(index)
                elif new != old:
                    self._router.include(index)

    @contextlib.contextmanager
    def lend(self, prompt: Sequence[int], max_tokens: int) -> Iterator[GroupHandle]:
        """Gives the group that is to serve a request, for the length of a ``with`` block.

        Raises:
            GroupLost: All groups are lost.
        """
        cost = len(prompt) + max_tokens
        with self._lock:
            index = self._router.choose(prompt)
            self._router.begin(index, cost)
            group = self._handles[index]
        try:
            yield group
        except GroupUnreachable:
            raise
        except GroupLost:
            self._avoid(index, group)
            raise
        finally:
            with self._lock:
                self._router.end(index, cost)

    async def status(self) -> list[dict[str, Any]]:
        """What each group does now."""
        return await asyncio.gather(*map(self._status, range(len(self._handles))))

    async def message_costs(self) -> list[MessageCosts]:
        """What a message to a target server of the first group costs."""
        return await self._handles[0].message_costs()

    async def trace(self, request: str, since: float) -> list[Trace]:
        """What the groups know of a request, whose parts may be in several, in order of parts."""
        up = [
            group
            for group, standing in zip(self._handles, self._standing, strict=True)
            if standing.error is None
        ]
        found = await asyncio.gather(*(_trace(group, request, since) for group in up))
        traces = [trace for some in found for trace in some]
        return sorted(traces, key=lambda trace: (len(trace.request), trace.request))

    def _avoid(self, index: int, group: GroupHandle) -> None:
        """Sends nothing to a lost group, even if this is the first to hear of it."""
        with self._lock:
            if group is self._handles[index]:
                self._router.exclude(index)

    async def _status(self, index: int) -> dict[str, Any]:
        standing = self._standing[index]
        status: dict[str, Any] = {"healthy": False, "error": standing.error}
        if standing.error is None:
            try:
                status = await self._handles[index].status()
            except GroupLost as error:
                status["error"] = str(error)
        return {**status, "rebuilds": standing.rebuilds}


async def _trace(group: GroupHandle, request: str, since: float) -> list[Trace]:
    try:
        return await group.trace(request, since)
    except GroupLost:
        return []
