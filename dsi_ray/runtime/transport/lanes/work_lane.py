"""The coordinator's end of lanes to a model server: work out, events in."""

import asyncio
import itertools
import socket
import time
from collections.abc import Callable
from typing import Any

import ray

from dsi_ray.core.messages import Ended, Event, Output
from dsi_ray.runtime.process.background import Background
from dsi_ray.runtime.process.fatal import fatal_errors
from dsi_ray.runtime.ray.outside import outside
from dsi_ray.runtime.transport.lanes.bases import Assignment, SentPaths
from dsi_ray.runtime.transport.lanes.frames import (
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
from dsi_ray.runtime.transport.lanes.lane import Lane, LaneEnded
from dsi_ray.runtime.transport.lanes.opening import OpenLane, open_lane
from dsi_ray.runtime.transport.work import Work

Listener = Callable[[list[Event]], None]

_PINGS = 64
_SHORT_S = 1.0
"""Requests that are here for less get no object ref: nobody would notice a stuck lane earlier."""

_REOPEN_S = 10.0
_decoder = unpacker(FromServer)


class WorkLane:
    """Work for an actor over a lane, and another lane once it is lost.

    Args:
        actor: The model server.
        ports: Of its node, for lanes between nodes.

    Attributes:
        messages: What crosses a process for a piece of work.
        lane: The lane, once it is open.
    """

    messages = 1

    def __init__(self, actor: Any, ports: tuple[int, ...]) -> None:
        self._actor = actor
        self._ports = ports
        self._listener: Listener | None = None
        self._background = Background()
        self._numbers = itertools.count()
        self._open: OpenLane
        self.lane: Lane
        self._reset()

    def _reset(self) -> None:
        """Nothing is known of the other end of a new lane, nor it of this one."""
        self._sent = SentPaths()
        self._begun: dict[int, Assignment] = {}
        """What was sent and has brought no news: the server may ask for it again."""
        self._pings: dict[int, asyncio.Future[None]] = {}
        self._branches: dict[str, Any] = {}
        """By request, the ref of the call that its work stands behind; None where it is new."""

    async def open(self) -> None:
        """Opens a lane.

        Raises:
            LaneEnded: None can be opened.
            RayActorError: The server died.
        """
        self._open = await open_lane(self._actor.lane, self._ports)
        self.attach(self._open.connection)

    def attach(self, connection: socket.socket) -> None:
        """Makes a connection the lane."""
        self._reset()
        self.lane = Lane(connection, self._on_frame)
        self.lane.end.add_done_callback(self._fail_pings)

    async def reopen(self) -> bool:
        """Opens another lane in the place of one that ended; False if the server is lost."""
        try:
            async with asyncio.timeout(_REOPEN_S):
                if await self._open.actor_died():
                    return False
                await self.open()
        except (LaneEnded, ray.exceptions.RayError, TimeoutError):
            return False
        return True

    async def listen(self, listener: Listener) -> None:
        """Passes on what the server reports.

        Raises:
            LaneEnded: The lane ended, and most likely the server.
        """
        self._listener = listener
        raise await asyncio.shield(self.lane.end)

    def send(self, work: Work) -> None:
        """Sends all that there is for the server at one moment; returns at once."""
        begins = []
        for assignment in work.starts:
            task = assignment[0]
            begins.append(self._sent.begin(*assignment))
            self._begun[task.id] = assignment
            if task.request not in self._branches:
                self._branches[task.request] = None
                asyncio.get_running_loop().call_later(_SHORT_S, self._hold, task.request)
        self.lane.send(pack(WorkFrame(begins, work.cancels, work.releases)))
        for request in work.releases:
            self._sent.forget(request)
            self._branches.pop(request, None)

    def ended(self, task: int) -> None:
        """Nothing to note: a task's end came over this lane."""

    def cancel_branches(self, request: str | None = None) -> None:
        """Ends all that the server does for a request, or for all, even if it reads no lane."""
        requests = self._branches if request is None else [request]
        for ref in filter(None, map(self._branches.get, requests)):
            # Off the event loop: it blocks for a part of a millisecond.
            self._background.start(asyncio.to_thread(ray.cancel, ref))

    async def latency(self) -> tuple[float, float]:
        """Half of the median round trip, and the processor time that one takes here, in seconds.

        Raises:
            LaneEnded: The lane ended meanwhile.
        """
        trips: list[float] = []
        worked = time.thread_time()
        for _ in range(_PINGS):
            started = time.perf_counter()
            await self.ping()
            trips.append(time.perf_counter() - started)
        return sorted(trips)[_PINGS // 2] / 2, (time.thread_time() - worked) / _PINGS

    async def ping(self) -> None:
        """Returns when the server has answered.

        Raises:
            LaneEnded: The lane ended meanwhile.
        """
        number = next(self._numbers)
        answer = self._pings[number] = asyncio.get_running_loop().create_future()
        self.lane.send(pack(Ping(number)))
        await answer

    @fatal_errors("a lane")
    def _hold(self, request: str) -> None:
        """Puts what the server does for a request behind an object ref."""
        if request in self._branches:
            self._branches[request] = outside(self._actor.branches.remote, request)

    @fatal_errors("a lane")
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
                if self._listener is not None:
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
