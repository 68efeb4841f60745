"""The coordinator's end of a lane to a model server: work out, events in."""

import asyncio
import itertools
import socket
import time
from collections.abc import Callable
from typing import Any

from dsi_ray.core.messages import Ended, Event, Output
from dsi_ray.runtime.transport.bases import SentPaths
from dsi_ray.runtime.transport.frames import (
    EventsFrame,
    FromServer,
    Ping,
    Pong,
    Unknown,
    WorkFrame,
    pack,
    unpack,
    unpacker,
)
from dsi_ray.runtime.transport.lane import Lane, LaneEnded
from dsi_ray.runtime.wire import Work

Listener = Callable[[list[Event]], None]

_PINGS = 64
_decoder = unpacker(FromServer)


class WorkLane:
    """One lane: gone with it is all that is known of the server's end.

    Args:
        connection: To the server.
        listener: Hears of its events, in order.
    """

    def __init__(self, connection: socket.socket, listener: Listener) -> None:
        self._listener = listener
        self._sent = SentPaths()
        self._begun: dict[int, tuple[Any, ...]] = {}
        """What was sent and has brought no news: the server may ask for it again."""
        self._pings: dict[int, asyncio.Future[None]] = {}
        self._numbers = itertools.count()
        self._lane = Lane(connection, self._on_frame)
        self._lane.end.add_done_callback(self._fail_pings)

    async def ended(self) -> LaneEnded:
        """Waits for the lane's end; returns why."""
        return await asyncio.shield(self._lane.end)

    def close(self) -> None:
        """Ends the lane."""
        self._lane.close()

    def send(self, work: Work) -> None:
        """Sends all that there is for the server at one moment; returns at once."""
        begins = [self._sent.begin(*start) for start in work.starts]
        self._begun |= {start[0].id: start for start in work.starts}
        self._lane.send(pack(WorkFrame(begins, work.cancels, work.releases)))
        for request in work.releases:
            self._sent.forget(request)

    async def latency(self) -> tuple[float, float]:
        """Half of the median round trip, and the processor time that one takes here, in seconds.

        Raises:
            LaneEnded: The lane ended meanwhile.
        """
        trips: list[float] = []
        worked = time.thread_time()
        for _ in range(_PINGS):
            started = time.perf_counter()
            await self._ping()
            trips.append(time.perf_counter() - started)
        return sorted(trips)[_PINGS // 2] / 2, (time.thread_time() - worked) / _PINGS

    async def _ping(self) -> None:
        number = next(self._numbers)
        answer = self._pings[number] = asyncio.get_running_loop().create_future()
        self._lane.send(pack(Ping(number)))
        await answer

    def _fail_pings(self, end: "asyncio.Future[LaneEnded]") -> None:
        for answer in self._pings.values():
            if not answer.done():
                answer.set_exception(end.result())

    def _on_frame(self, payload: bytes) -> None:
        match unpack(_decoder, payload):
            case EventsFrame(pairs):
                events = [event for pair in pairs for event in pair if event is not None]
                for event in events:
                    self._begun.pop(event.task, None)
                self._listener(events)
            case Unknown(tasks):
                again = [self._begun[task] for task in tasks if task in self._begun]
                for task, _, _ in again:
                    self._sent.forget(task.request)
                self.send(Work(starts=again))
            case Pong(number):
                if (answer := self._pings.pop(number, None)) is not None and not answer.done():
                    answer.set_result(None)


def pairs_of(events: list[Event]) -> list[tuple[Output | None, Ended | None]]:
    """Events as they travel."""
    return [(event, None) if isinstance(event, Output) else (None, event) for event in events]
