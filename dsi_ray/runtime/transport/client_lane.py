"""Both ends of a lane from a process with requests to a coordinator: requests in, tokens out."""

import asyncio
import socket
from collections.abc import Callable, Iterable

from dsi_ray.runtime.errors import EngineError
from dsi_ray.runtime.request import Generation, TokenChunk
from dsi_ray.runtime.transport.frames import (
    Abandon,
    Deliveries,
    FromCoordinator,
    Stop,
    Submit,
    ToCoordinator,
    pack,
    pack_ids,
    unpack,
    unpack_ids,
    unpacker,
)
from dsi_ray.runtime.transport.lane import Lane, LaneEnded

Deliver = Callable[[str, TokenChunk | EngineError], None]
"""Takes a request's id and what it gets."""

_to_coordinator = unpacker(ToCoordinator)
_from_coordinator = unpacker(FromCoordinator)


class ClientLane:
    """The client's end.

    Args:
        connection: To a coordinator.
        deliver: Called in the event loop with what requests get.
    """

    def __init__(self, connection: socket.socket, deliver: Deliver) -> None:
        self._deliver = deliver
        self._lane = Lane(connection, self._on_frame)

    @property
    def end(self) -> "asyncio.Future[LaneEnded]":
        """Done, with the reason, once the lane has ended."""
        return self._lane.end

    def submit(self, generation: Generation) -> None:
        """Begins a request."""
        prompt = pack_ids(generation.prompt)
        frame = Submit(
            generation.id, prompt, generation.stop_ids, generation.sampling, generation.decoding
        )
        self._lane.send(pack(frame))

    def abandon(self, request: str) -> None:
        """Ends a request that nobody waits for any more."""
        self._lane.send(pack(Abandon(request)))

    def stop(self, request: str) -> None:
        """Ends a request whose text is complete."""
        self._lane.send(pack(Stop(request)))

    def close(self) -> None:
        """Ends the lane, and with it all of its requests."""
        self._lane.close()

    def _on_frame(self, payload: bytes) -> None:
        for request, chunk, error in unpack(_from_coordinator, payload).items:
            if chunk is not None:
                self._deliver(request, chunk)
            else:
                self._deliver(request, EngineError(error or "the request failed"))


class ServedClient:
    """The coordinator's end.

    Args:
        connection: To a client.
        submit: Called with each new request.
        abandon: Called with the id of each that nobody waits for.
        stop: Called with the id of each whose text is complete.

    Attributes:
        lane: The connection.
    """

    def __init__(
        self,
        connection: socket.socket,
        submit: Callable[[Generation], None],
        abandon: Callable[[str], None],
        stop: Callable[[str], None],
    ) -> None:
        self._submit, self._abandon, self._stop = submit, abandon, stop
        self.lane = Lane(connection, self._on_frame)

    def deliver(self, items: Iterable[tuple[str, TokenChunk | EngineError]]) -> None:
        """Sends what requests get."""
        frame = Deliveries(
            [
                (request, None, str(got)) if isinstance(got, EngineError) else (request, got, None)
                for request, got in items
            ]
        )
        self.lane.send(pack(frame))

    def _on_frame(self, payload: bytes) -> None:
        match unpack(_to_coordinator, payload):
            case Submit(request, prompt, stop_ids, sampling, decoding):
                tokens = unpack_ids(prompt)
                self._submit(Generation(request, tokens, stop_ids, sampling, decoding))
            case Abandon(request):
                self._abandon(request)
            case Stop(request):
                self._stop(request)
