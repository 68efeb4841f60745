"""A model server's end of its lane: work in, events out."""

import socket
from collections.abc import Callable

from dsi_ray.core.messages import Event, ServerId
from dsi_ray.runtime.transport.bases import ReceivedPaths
from dsi_ray.runtime.transport.frames import (
    EventsFrame,
    Ping,
    Pong,
    ToServer,
    Unknown,
    WorkFrame,
    pack,
    unpack,
    unpacker,
)
from dsi_ray.runtime.transport.lane import Lane
from dsi_ray.runtime.transport.work_lane import pairs_of
from dsi_ray.runtime.wire import Work

_decoder = unpacker(ToServer)


class ServedLane:
    """One lane.

    Args:
        connection: To the coordinator.
        server: Whose end it is.
        take: Called in the event loop with what is to be done.

    Attributes:
        lane: The connection.
    """

    def __init__(
        self, connection: socket.socket, server: ServerId, take: Callable[[Work], None]
    ) -> None:
        self._received = ReceivedPaths(server)
        self._take = take
        self.lane = Lane(connection, self._on_frame)

    def report(self, events: list[Event]) -> None:
        """Sends what happened, from any thread."""
        self.lane.send(pack(EventsFrame(pairs_of(events))))

    def _on_frame(self, payload: bytes) -> None:
        match unpack(_decoder, payload):
            case Ping(number):
                self.lane.send(pack(Pong(number)))
            case WorkFrame(begins, cancels, releases):
                work = Work([], cancels, releases)
                unknown: list[int] = []
                for begin in begins:
                    if (assignment := self._received.task(begin)) is not None:
                        work.starts.append(assignment)
                    else:
                        unknown.append(begin.task)
                if unknown:
                    self.lane.send(pack(Unknown(unknown)))
                self._take(work)
                for request in releases:
                    self._received.forget(request)
