"""Link: the requests of one event loop to one coordinator."""

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator
from typing import Any

from dsi_ray.config import Transport
from dsi_ray.runtime.errors import EngineError
from dsi_ray.runtime.ray.outside import outside
from dsi_ray.runtime.request import Generation, TokenChunk
from dsi_ray.runtime.transport.calls.client_calls import ClientCalls
from dsi_ray.runtime.transport.lanes.client_lane import ClientLane
from dsi_ray.runtime.transport.lanes.lane import LaneEnded

_LOGGER = logging.getLogger(__name__)

Channel = ClientLane | ClientCalls


class Link:
    """Requests to a coordinator. Opens a channel to it with the first, and again once it is lost.

    Args:
        coordinator: The actor.
        transport: How to talk to it.
        ports: Of its node, for lanes between nodes.
    """

    def __init__(self, coordinator: Any, transport: Transport, ports: tuple[int, ...]) -> None:
        self._coordinator = coordinator
        self._transport = transport
        self._ports = ports
        self._open: dict[str, asyncio.Queue[TokenChunk | Exception]] = {}
        """By ticket: a submission's, even where two requests are given one id."""
        self._channel: asyncio.Task[Channel] | None = None

    async def generate(self, generation: Generation) -> AsyncGenerator[TokenChunk, None]:
        """Yields tokens as they are committed. Closing it ends the request everywhere.

        Raises:
            EngineError: It failed.
        """
        if self._channel is None:
            self._channel = outside(lambda: asyncio.create_task(self._connect()))
        # Shielded: others wait for it too.
        channel = await asyncio.shield(self._channel)
        ticket = uuid.uuid4().hex
        inbox = self._open[ticket] = asyncio.Queue()
        finished = False
        try:
            await channel.submit(ticket, generation)
            while not finished:
                chunk = await inbox.get()
                finished = isinstance(chunk, Exception) or chunk.finish_reason is not None
                if isinstance(chunk, Exception):
                    raise chunk
                yield chunk
        finally:
            del self._open[ticket]
            if not finished:
                channel.abandon(ticket)

    async def stop(self, request: str) -> None:
        """Ends a request whose text is complete."""
        if self._channel is not None:
            (await asyncio.shield(self._channel)).stop(request)

    async def _connect(self) -> Channel:
        """Opens a channel and has it read as long as it lives.

        Raises:
            GroupLost: The coordinator was lost, or cannot be reached.
        """
        try:
            channel = await self._opened()
        except BaseException:
            self._channel = None
            raise
        self._reader = asyncio.create_task(self._read(channel))
        return channel

    async def _opened(self) -> Channel:
        if self._transport is not Transport.CALLS:
            lane = ClientLane(self._coordinator, self._ports, self._hand_on)
            try:
                await lane.open()
                return lane
            except LaneEnded as error:
                if self._transport is Transport.LANES:
                    raise EngineError(f"no lane to the coordinator: {error}") from error
                _LOGGER.warning("%s; messages to the coordinator go by actor calls", error)
        calls = ClientCalls(self._coordinator, self._hand_on)
        await calls.open()
        return calls

    async def _read(self, channel: Channel) -> None:
        try:
            await channel.run()
        except Exception as error:
            # Whatever it is: those who wait hear of it nowhere else.
            self._channel = None
            for inbox in self._open.values():
                inbox.put_nowait(error)

    def _hand_on(self, ticket: str, chunk: TokenChunk | EngineError) -> bool:
        """Gives a request what it gets; whether anybody waits for it."""
        inbox = self._open.get(ticket)
        if inbox is not None:
            inbox.put_nowait(chunk)
        return inbox is not None
