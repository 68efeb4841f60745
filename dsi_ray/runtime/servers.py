"""How the coordinator speaks to a model server: in another process, or in its own."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import ray
from ray.actor import ActorHandle

from dsi_ray.core.messages import Ended, Event, Mode, Reason, Task
from dsi_ray.models.base import ModelInfo, Sampling
from dsi_ray.runtime.model_server import ModelServer
from dsi_ray.runtime.wire import pack_task, unpack_events

_PINGS = 8

Listener = Callable[[list[Event]], None]


class Server(Protocol):
    """A model server and the tasks that were sent to it."""

    crosses: bool
    """Whether messages to and from it cross a process."""

    async def listen(self, listener: Listener) -> None:
        """Passes on what the server reports, as long as it lives."""

    def send(self, task: Task, mode: Mode, sampling: Sampling) -> None:
        """Starts a task."""

    def cancel(self, task: int) -> None:
        """Cancels a task whose end was not heard; returns at once."""

    def ended(self, task: int) -> None:
        """Notes that a task's end was heard."""

    def release(self, request: str) -> None:
        """Forgets a request."""

    async def load(self) -> ModelInfo:
        """Loads its model; comes first."""

    async def measure(self) -> float:
        """Seconds of one forward."""

    async def latency(self) -> float:
        """Seconds that a message to it takes."""

    async def status(self) -> dict[str, Any]:
        """What the server does now."""


class RemoteServer:
    """A model server in a Ray actor."""

    crosses = True

    def __init__(self, actor: "ActorHandle[ModelServer]") -> None:
        self._actor: Any = actor
        self._refs: dict[int, ray.ObjectRef[None]] = {}
        self._listener: Listener | None = None
        self._background = Background()

    async def listen(self, listener: Listener) -> None:
        """Passes on the items of the server's event stream.

        Raises:
            RayActorError: The server died.
        """
        self._listener = listener
        async for item in self._actor.stream.options(num_returns="streaming").remote():
            listener(unpack_events(await item))

    def send(self, task: Task, mode: Mode, sampling: Sampling) -> None:
        """Starts a task: an actor call, so that ``ray.cancel`` can end it."""
        self._refs[task.id] = self._actor.extend_packed.remote(pack_task(task, mode, sampling))

    def cancel(self, task: int) -> None:
        """Cancels off the event loop: ``ray.cancel`` blocks for a part of a millisecond."""
        ref = self._refs.get(task)
        if ref is not None:
            self._background.start(self._cancel(task, ref))

    def ended(self, task: int) -> None:
        """Notes that a task's end was heard."""
        self._refs.pop(task, None)

    def release(self, request: str) -> None:
        """Forgets a request."""
        self._actor.release.remote(request)

    async def load(self) -> ModelInfo:
        """Loads its model; comes first.

        Raises:
            ModelError: It cannot be used.
        """
        return await self._actor.load.remote()  # type: ignore[no-any-return]

    async def measure(self) -> float:
        """Seconds of one forward."""
        return await self._actor.measure.remote()  # type: ignore[no-any-return]

    async def latency(self) -> float:
        """Half of the fastest round trip, in seconds."""
        trips = []
        for _ in range(_PINGS):
            started = time.perf_counter()
            await self._actor.ping.remote()
            trips.append(time.perf_counter() - started)
        return min(trips) / 2

    async def status(self) -> dict[str, Any]:
        """What the server does now."""
        return await self._actor.status.remote()  # type: ignore[no-any-return]

    async def _cancel(self, task: int, ref: "ray.ObjectRef[None]") -> None:
        await asyncio.get_running_loop().run_in_executor(None, ray.cancel, ref)
        with contextlib.suppress(ray.exceptions.RayError):
            await ref
        _report_cancelled(self._listener, task)


class LocalServer:
    """A model server inside the coordinator, for a drafter without a device of its own."""

    crosses = False

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._listener: Listener | None = None
        self._background = Background()
        self.load = server.load
        self.measure = server.measure
        self.status = server.status

    async def listen(self, listener: Listener) -> None:
        """Passes on what the server reports."""
        self._listener = listener
        async for events in self._server.events():
            listener(events)

    def send(self, task: Task, mode: Mode, sampling: Sampling) -> None:
        """Starts a task."""
        self._calls[task.id] = self._background.start(self._server.extend(task, mode, sampling))

    def cancel(self, task: int) -> None:
        """Cancels a task whose end was not heard."""
        call = self._calls.get(task)
        if call is not None:
            call.add_done_callback(lambda _: _report_cancelled(self._listener, task))
            call.cancel()

    def ended(self, task: int) -> None:
        """Notes that a task's end was heard."""
        self._calls.pop(task, None)

    def release(self, request: str) -> None:
        """Forgets a request."""
        self._background.start(self._server.release(request))

    async def latency(self) -> float:
        """No message leaves the process."""
        return 0.0


def _report_cancelled(listener: Listener | None, task: int) -> None:
    """Reports the end of a cancelled call.

    A call that had begun reports its end by itself. This is for one that had not; of two ends the
    second is ignored.
    """
    if listener is not None:
        listener([Ended(task, Reason.CANCELLED)])


class Background:
    """Coroutines that nobody awaits; asyncio itself would forget them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, coroutine: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Runs it on the current loop."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
