"""How the coordinator speaks to a model server: in another process, or in its own."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

import ray
from ray.actor import ActorHandle

from dsi_ray.core.messages import Ended, Event, Reason
from dsi_ray.models.base import ModelInfo
from dsi_ray.runtime.fatal import supervise
from dsi_ray.runtime.model_server import ModelServer
from dsi_ray.runtime.outside import outside
from dsi_ray.runtime.wire import Work, pack_work, unpack_events

_PINGS = 8

Listener = Callable[[list[Event]], None]


class Server(Protocol):
    """A model server and the tasks that were sent to it."""

    crosses: bool
    """Whether messages to and from it cross a process."""

    async def listen(self, listener: Listener) -> None:
        """Passes on what the server reports, as long as it lives."""

    def send(self, work: Work) -> None:
        """Sends all that there is for the server at one moment; returns at once."""

    def ended(self, task: int) -> None:
        """Notes that a task's end was heard."""

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


@dataclass(slots=True)
class _Call:
    """A call under way and those of its tasks whose end was not heard."""

    ref: "ray.ObjectRef[None]"
    tasks: set[int]


class RemoteServer:
    """A model server in a Ray actor."""

    crosses = True

    def __init__(self, actor: "ActorHandle[ModelServer]") -> None:
        self._actor: Any = actor
        self._calls: dict[int, _Call] = {}
        self._listener: Listener | None = None
        self._background = Background()

    async def listen(self, listener: Listener) -> None:
        """Passes on the items of the server's event stream.

        Raises:
            RayActorError: The server died.
            EOFError: The stream ended: nothing more would be heard of it.
        """
        self._listener = listener
        async for item in self._actor.stream.options(num_returns="streaming").remote():
            listener(unpack_events(await item))
        raise EOFError("the event stream ended")

    def send(self, work: Work) -> None:
        """Sends all that there is for the server at one moment: an actor call.

        Where only the tasks of one call are to end, ``ray.cancel`` ends the call.
        """
        if work.cancels and not work.starts and not work.releases:
            call = self._calls.get(work.cancels[0][1])
            if call is not None and call.tasks == {task for _, task in work.cancels}:
                # Off the event loop: it blocks for a part of a millisecond.
                self._background.start(self._cancel(call))
                return
        ref = outside(self._actor.run_packed.remote, pack_work(work))
        tasks = {task.id for task, _, _ in work.starts}
        self._calls |= dict.fromkeys(tasks, _Call(ref, tasks))

    def ended(self, task: int) -> None:
        """Notes that a task's end was heard."""
        call = self._calls.pop(task, None)
        if call is not None:
            call.tasks.discard(task)

    async def load(self) -> ModelInfo:
        """Loads its model; comes first.

        Raises:
            ModelError: It cannot be used.
        """
        return await self._actor.load.remote()  # type: ignore[no-any-return]

    async def measure(self) -> list[tuple[int, float]]:
        """Seconds of a forward by the number of its tokens, 1 first."""
        return await self._actor.measure.remote()  # type: ignore[no-any-return]

    async def latency(self) -> tuple[float, float]:
        """Half of the fastest round trip, and the least processor time that one took here."""
        trips, work = [], []
        for _ in range(_PINGS):
            started, worked = time.perf_counter(), time.process_time()
            await self._actor.ping.remote()
            trips.append(time.perf_counter() - started)
            work.append(time.process_time() - worked)
        return min(trips) / 2, min(work)

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

    async def _cancel(self, call: _Call) -> None:
        """Ends a call and reports the ends of its tasks.

        A call that had begun reports them by itself. This is for one that had not; of two ends the
        second is ignored.
        """
        tasks = tuple(call.tasks)
        await asyncio.get_running_loop().run_in_executor(None, ray.cancel, call.ref)
        with contextlib.suppress(ray.exceptions.RayError):
            await call.ref
        if self._listener is not None:
            self._listener([Ended(task, Reason.CANCELLED) for task in tasks])


class LocalServer:
    """A model server inside the coordinator, for a drafter without a device of its own."""

    crosses = False

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self._background = Background()
        self.load = server.load
        self.measure = server.measure
        self.status = server.status
        self.probe = server.probe

    async def listen(self, listener: Listener) -> None:
        """Passes on what the server reports."""
        async for events in self._server.events():
            listener(events)

    def send(self, work: Work) -> None:
        """Hands over all that there is for the server at one moment."""
        self._background.start(self._server.run(work))

    def ended(self, task: int) -> None:
        """Nothing to note."""

    async def latency(self) -> tuple[float, float]:
        """No message leaves the process."""
        return 0.0, 0.0

    def kill(self) -> None:
        """A thread cannot be killed: the server stays suspected until it answers."""


class Background:
    """Coroutines that nobody awaits: an exception in one ends the process."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, coroutine: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Runs it on the current loop, which itself would forget it."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        supervise(task, "a background task")
        return task
