"""A model server's end of its lane: work in, events out."""

import asyncio
import socket
from collections.abc import Callable

from dsi_ray.core.messages import Event, ServerId
from dsi_ray.runtime.transport.lanes.bases import ReceivedPaths
from dsi_ray.runtime.transport.lanes.frames import (
    Begin,
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
from dsi_ray.runtime.transport.lanes.lane import Lane
from dsi_ray.runtime.transport.lanes.work_lane import pairs_of
from dsi_ray.runtime.transport.work import Work

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
        self._releases: dict[str, asyncio.Event] = {}
        """Of the requests that are here."""
        self.lane = Lane(connection, self._on_frame)

    def hear(self, events: list[Event]) -> None:
        """Sends what happened, from any thread."""
        self.lane.send(pack(EventsFrame(pairs_of(events))))

    def released(self, request: str) -> asyncio.Event | None:
        """Set once the request is released; None if it is not here."""
        return self._releases.get(request)

    def _on_frame(self, payload: bytes) -> None:
        match unpack(_decoder, payload):
            case Ping(number):
                self.lane.send(pack(Pong(number)))
            case WorkFrame(begins, cancels, releases):
                self._work(begins, cancels, releases)

    def _work(
        self, begins: list[Begin], cancels: list[tuple[str, int]], releases: list[str]
    ) -> None:
        work, unknown = Work([], cancels, releases), []
        for begin in begins:
            self._releases.setdefault(begin.request, asyncio.Event())
            assignment = self._received.task(begin)
            if assignment is None:
                unknown.append(begin.task)
            else:
                work.starts.append(assignment)
        self._take(work)
        if unknown:
            self.lane.send(pack(Unknown(unknown)))
        for request in releases:
            self._received.forget(request)
            if (released := self._releases.pop(request, None)) is not None:
                released.set()
