"""How the coordinator speaks to a model server: in another process, or in its own."""

import asyncio
import logging
from typing import Any, Protocol

import ray
from ray.actor import ActorHandle

from dsi_ray.config import Transport
from dsi_ray.core.messages import Event
from dsi_ray.models.base import ModelInfo
from dsi_ray.runtime.errors import EngineError
from dsi_ray.runtime.process.background import call_soon
from dsi_ray.runtime.process.fatal import fatal_errors
from dsi_ray.runtime.server.model_server import ModelServer
from dsi_ray.runtime.transport.calls.work_calls import Listener, WorkCalls
from dsi_ray.runtime.transport.costs import MessageCosts, measure_costs
from dsi_ray.runtime.transport.lanes.lane import LaneEnded
from dsi_ray.runtime.transport.lanes.work_lane import WorkLane
from dsi_ray.runtime.transport.work import Work

_LOGGER = logging.getLogger(__name__)
_ADVICE = "open the lane_ports between the nodes, or set transport: calls"


class Server(Protocol):
    """A model server and the tasks that were sent to it."""

    @property
    def messages(self) -> int:
        """What crosses a process for a piece of work; 0 for a server in this process."""

    async def listen(self, listener: Listener) -> None:
        """Passes on what the server reports, as long as it lives."""

    async def reopen(self) -> bool:
        """Makes a server usable again that was no more listened to; False if it is lost."""

    def send(self, work: Work) -> None:
        """Sends all that there is for the server at one moment; returns at once."""

    def ended(self, task: int) -> None:
        """Notes that a task's end was heard."""

    def cancel_branches(self, request: str | None = None) -> None:
        """Ends by ``ray.cancel`` what the server does for a request, or for all."""

    async def load(self) -> ModelInfo:
        """Loads its model; comes first."""

    async def measure(self) -> list[tuple[int, float]]:
        """Seconds of a forward by the number of its tokens, 1 first."""

    async def latency(self) -> tuple[float, float]:
        """Seconds until a message to it arrives, and of this process's processor time for it."""

    async def status(self) -> dict[str, Any]:
        """What the server does now."""

    async def probe(self) -> None:
        """Returns once the forward that is under way has ended: then the server does not hang."""

    def kill(self) -> None:
        """Ends the server's process, if it has one of its own."""


class RemoteServer:
    """A model server in a Ray actor.

    Args:
        actor: Its handle.
        transport: How to talk to it.
        ports: Of its node, for lanes between nodes.
    """

    def __init__(
        self, actor: "ActorHandle[ModelServer]", transport: Transport, ports: tuple[int, ...]
    ) -> None:
        self._actor: Any = actor
        self._transport = transport
        self._ports = ports
        self._channel: WorkLane | WorkCalls = WorkCalls(actor)

    @property
    def messages(self) -> int:
        """What crosses a process for a piece of work."""
        return self._channel.messages

    async def load(self) -> ModelInfo:
        """Loads its model and opens a lane; comes first.

        Raises:
            ModelError: It cannot be used.
            EngineError: No lane can be opened, and there may be nothing else.
        """
        info: ModelInfo = await self._actor.load.remote()
        if self._transport is not Transport.CALLS:
            lane = WorkLane(self._actor, self._ports)
            try:
                await lane.open()
            except LaneEnded as error:
                if self._transport is Transport.LANES:
                    raise EngineError(f"{self._actor}: {error}; {_ADVICE}") from error
                _LOGGER.warning("%s: %s; messages go by actor calls", self._actor, error)
            else:
                self._channel = lane
        return info

    async def listen(self, listener: Listener) -> None:
        """Passes on what the server reports.

        Raises:
            RayActorError: The server died.
            LaneEnded: Its lane ended, and most likely it.
            EOFError: Its stream ended: nothing more would be heard of it.
        """
        await self._channel.listen(listener)

    async def reopen(self) -> bool:
        """Makes a server usable again whose lane has ended; False if it is lost."""
        return await self._channel.reopen()

    def send(self, work: Work) -> None:
        """Sends all that there is for the server at one moment; returns at once."""
        self._channel.send(work)

    def ended(self, task: int) -> None:
        """Notes that a task's end was heard."""
        self._channel.ended(task)

    def cancel_branches(self, request: str | None = None) -> None:
        """Ends by ``ray.cancel`` what the server does for a request, or for all."""
        self._channel.cancel_branches(request)

    async def measure(self) -> list[tuple[int, float]]:
        """Seconds of a forward by the number of its tokens, 1 first."""
        return await self._actor.measure.remote()  # type: ignore[no-any-return]

    async def latency(self) -> tuple[float, float]:
        """Seconds until a message to it arrives, and of this process's processor time for it."""
        return await self._channel.latency()

    async def message_costs(self) -> list[MessageCosts]:
        """What a message costs on its lane, if it has one, and by actor calls."""
        channels: list[tuple[str, WorkLane | WorkCalls]] = [("calls", WorkCalls(self._actor))]
        if isinstance(self._channel, WorkLane):
            channels.insert(0, ("lane", self._channel))
        return [await measure_costs(name, channel.ping, self.status) for name, channel in channels]

    async def status(self) -> dict[str, Any]:
        """What the server does now."""
        return await self._actor.status.remote()  # type: ignore[no-any-return]

    async def probe(self) -> None:
        """Returns once the forward that is under way has ended.

        Raises:
            RayActorError: The server died.
        """
        await self._actor.probe.remote()

    def kill(self) -> None:
        """Ends the server's process."""
        ray.kill(self._actor)


class LocalServer:
    """A model server inside the coordinator, for a drafter without a device of its own."""

    messages = 0

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self._early: list[Event] = []
        """What happened before somebody listened."""
        self._listener: Listener = self._early.extend
        self.measure = server.measure
        self.status = server.status
        self.probe = server.probe

    async def load(self) -> ModelInfo:
        """Loads its model; comes first.

        Raises:
            ModelError: It cannot be used.
        """
        info = await self._server.load()
        self._loop = asyncio.get_running_loop()
        self._take = self._server.connect(self._hear)
        return info

    async def listen(self, listener: Listener) -> None:
        """Passes on what the server reports."""
        self._listener = listener
        if self._early:
            listener(self._early)
        await asyncio.Event().wait()

    async def reopen(self) -> bool:
        """It cannot be lost without this process."""
        return False

    def send(self, work: Work) -> None:
        """Hands over all that there is for the server at one moment."""
        self._take(work)

    def ended(self, task: int) -> None:
        """Nothing to note."""

    def cancel_branches(self, request: str | None = None) -> None:
        """Nothing: what is sent arrives."""

    async def latency(self) -> tuple[float, float]:
        """No message leaves the process."""
        return 0.0, 0.0

    def kill(self) -> None:
        """A thread cannot be killed: the server stays suspected until it answers."""

    def _hear(self, events: list[Event]) -> None:
        """In the thread of the forwards."""
        call_soon(self._loop, self._pass_on, events)

    @fatal_errors("the events of a server")
    def _pass_on(self, events: list[Event]) -> None:
        self._listener(events)
