"""The coordinator's end of a lane from a client: requests in, tokens out."""

import asyncio
import socket
from collections.abc import Callable

from dsi_ray.runtime.coordinator.in_flight import Deliver
from dsi_ray.runtime.errors import EngineError, RequestFailed
from dsi_ray.runtime.process.fatal import fatal_errors
from dsi_ray.runtime.request import Generation, TokenChunk
from dsi_ray.runtime.transport.lanes.frames import (
    Abandon,
    Deliveries,
    Failure,
    StopFrame,
    Submit,
    ToCoordinator,
    pack,
    unpack,
    unpack_ids,
    unpacker,
)
from dsi_ray.runtime.transport.lanes.lane import Lane, LaneEnded

_decoder = unpacker(ToCoordinator)


class ServedClient:
    """The coordinator's end.

    Args:
        connection: To a client.
        submit: Called in the event loop with each new request and where to put what it gets.
        leave: Called with the id of each request that nobody waits for; at the lane's end those
            are all that are open.
        stop: Called with the id of each whose text is complete.

    Attributes:
        lane: The connection.
    """

    def __init__(
        self,
        connection: socket.socket,
        submit: Callable[[Generation, Deliver], None],
        leave: Callable[[str], None],
        stop: Callable[[str], None],
    ) -> None:
        self._submit, self._leave, self._stop = submit, leave, stop
        self._open: dict[str, str] = {}
        """The requests that will get more, by ticket."""
        self._waiting: list[tuple[str, TokenChunk | None, Failure | None]] = []
        self.lane = Lane(connection, self._on_frame)
        self.lane.end.add_done_callback(self._leave_all)

    def _on_frame(self, payload: bytes) -> None:
        match unpack(_decoder, payload):
            case Submit(ticket, request, prompt, stop_ids, sampling, decoding):
                tokens = unpack_ids(prompt)
                self._open[ticket] = request
                self._submit(
                    Generation(request, tokens, stop_ids, sampling, decoding),
                    lambda got: self._put(ticket, got),
                )
            case Abandon(ticket):
                if (gone := self._open.pop(ticket, None)) is not None:
                    self._leave(gone)
            case StopFrame(request):
                self._stop(request)

    def _put(self, ticket: str, got: TokenChunk | EngineError) -> None:
        if isinstance(got, EngineError):
            param = got.param if isinstance(got, RequestFailed) else None
            self._waiting.append((ticket, None, Failure(str(got), param)))
        else:
            self._waiting.append((ticket, got, None))
        if isinstance(got, EngineError) or got.finish_reason is not None:
            self._open.pop(ticket, None)
        if len(self._waiting) == 1:
            # What one turn of the event loop has for all requests is one frame.
            asyncio.get_running_loop().call_soon(self._flush)

    @fatal_errors("a lane")
    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        self.lane.send(pack(Deliveries(waiting)))

    @fatal_errors("a lane")
    def _leave_all(self, _: "asyncio.Future[LaneEnded]") -> None:
        while self._open:
            self._leave(self._open.popitem()[1])
