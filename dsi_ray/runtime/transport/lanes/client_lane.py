"""The client's end of a lane to a coordinator: requests out, tokens in."""

import asyncio
from collections.abc import Callable
from typing import Any

from dsi_ray.runtime.errors import EngineError, GroupLost, GroupUnreachable, RequestFailed
from dsi_ray.runtime.ray.errors import engine_errors
from dsi_ray.runtime.request import Generation, TokenChunk
from dsi_ray.runtime.transport.lanes.frames import (
    Abandon,
    Failure,
    FromCoordinator,
    StopFrame,
    Submit,
    pack,
    pack_ids,
    unpack,
    unpacker,
)
from dsi_ray.runtime.transport.lanes.lane import Lane
from dsi_ray.runtime.transport.lanes.opening import open_lane

_decoder = unpacker(FromCoordinator)
_DEATH_S = 5.0
"""How long Ray may take to say that an actor is dead; without that it may be out of reach."""


class ClientLane:
    """Requests over a lane, until it ends.

    Args:
        coordinator: The actor.
        ports: Of its node, for lanes between nodes.
        deliver: Called in the event loop with a ticket and what its request gets.
    """

    def __init__(
        self,
        coordinator: Any,
        ports: tuple[int, ...],
        deliver: Callable[[str, TokenChunk | EngineError], object],
    ) -> None:
        self._coordinator = coordinator
        self._ports = ports
        self._deliver = deliver

    async def open(self) -> None:
        """Opens the lane.

        Raises:
            LaneEnded: None can be opened.
            GroupLost: The coordinator was lost, or cannot be reached.
        """
        with engine_errors():
            self._open = await open_lane(self._coordinator.lane, self._ports)
        self._lane = Lane(self._open.connection, self._on_frame)

    async def run(self) -> None:
        """Lasts as long as the lane.

        Raises:
            GroupLost: The coordinator was lost, or cannot be reached.
        """
        try:
            error = await asyncio.shield(self._lane.end)
            async with asyncio.timeout(_DEATH_S):
                died = await self._open.actor_died()
        except TimeoutError:
            died = False
        finally:
            self._lane.close()
        lost = GroupLost if died else GroupUnreachable
        raise lost(f"the coordinator was lost: {error}")

    async def submit(self, ticket: str, generation: Generation) -> None:
        """Begins a request."""
        frame = Submit(
            ticket,
            generation.id,
            pack_ids(generation.prompt),
            generation.stop_ids,
            generation.sampling,
            generation.decoding,
        )
        self._lane.send(pack(frame))

    def abandon(self, ticket: str) -> None:
        """Ends a request that nobody waits for any more."""
        self._lane.send(pack(Abandon(ticket)))

    def stop(self, request: str) -> None:
        """Ends a request whose text is complete."""
        self._lane.send(pack(StopFrame(request)))

    def _on_frame(self, payload: bytes) -> None:
        for ticket, chunk, failure in unpack(_decoder, payload).items:
            if chunk is not None:
                self._deliver(ticket, chunk)
            elif failure is not None:
                self._deliver(ticket, _error_of(failure))


def _error_of(failure: Failure) -> EngineError:
    if failure.param is None:
        return EngineError(failure.error)
    return RequestFailed(failure.error, failure.param)
