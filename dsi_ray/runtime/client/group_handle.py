"""GroupHandle: a DSI group, as those hold it who send it requests."""

import asyncio
import weakref
from collections.abc import AsyncGenerator
from typing import Any

import ray

from dsi_ray.runtime.client.link import Link
from dsi_ray.runtime.group_info import GroupInfo
from dsi_ray.runtime.ray.errors import engine_errors
from dsi_ray.runtime.request import Generation, TokenChunk
from dsi_ray.runtime.trace.spans import Trace
from dsi_ray.runtime.transport.costs import MessageCosts


class GroupHandle:
    """Speaks to a coordinator, from any event loop.

    Args:
        coordinator: The actor.
        info: Facts about its group, such as how to talk to it.
    """

    def __init__(self, coordinator: Any, info: GroupInfo) -> None:
        self._coordinator = coordinator
        self._info = info
        self._links: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Link] = (
            weakref.WeakKeyDictionary()
        )

    def generate(self, generation: Generation) -> AsyncGenerator[TokenChunk, None]:
        """The tokens of a request as they are committed. Closing it ends the request everywhere.

        Raises:
            GroupLost: The coordinator died.
            EngineError: The request failed.
        """
        return self._link().generate(generation)

    def complete(self, generation: Generation) -> TokenChunk:
        """All tokens of a request at once. Raises what :meth:`generate` does."""
        call = self._coordinator.complete.remote(generation)
        try:
            with engine_errors():
                return ray.get(call)  # type: ignore[no-any-return]
        except KeyboardInterrupt:
            ray.cancel(call)
            raise

    async def stop(self, request: str) -> None:
        """Ends a request whose text is complete. Raises what :meth:`generate` does."""
        await self._link().stop(request)

    async def status(self) -> dict[str, Any]:
        """What the group and each of its servers do now. Raises what :meth:`generate` does."""
        with engine_errors():
            return await self._coordinator.status.remote()  # type: ignore[no-any-return]

    async def message_costs(self) -> list[MessageCosts]:
        """What a message to a target server costs. Raises what :meth:`generate` does."""
        with engine_errors():
            return await self._coordinator.message_costs.remote()  # type: ignore[no-any-return]

    async def trace(self, request: str, since: float) -> list[Trace]:
        """What each server did for a request. Raises what :meth:`generate` does."""
        with engine_errors():
            return await self._coordinator.trace.remote(request, since)  # type: ignore[no-any-return]

    def _link(self) -> Link:
        """Of this event loop."""
        info = self._info
        new = Link(self._coordinator, info.transport, info.lane_ports)
        return self._links.setdefault(asyncio.get_running_loop(), new)
