"""The coordinator's end of actor calls to a model server: a call brings work, a stream events."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ray

from dsi_ray.core.messages import Ended, EndReason, Event
from dsi_ray.runtime.process.background import Background
from dsi_ray.runtime.ray.outside import outside
from dsi_ray.runtime.transport.work import Work, pack_work, unpack_events

Listener = Callable[[list[Event]], None]

_PINGS = 8


@dataclass(slots=True)
class _Call:
    """A call under way and those of its tasks whose end was not heard."""

    ref: "ray.ObjectRef[None]"
    tasks: set[int]


class WorkCalls:
    """Work for an actor over Ray's ports alone.

    Args:
        actor: The model server.

    Attributes:
        messages: What crosses a process for a piece of work: the call and its reply.
    """

    messages = 2

    def __init__(self, actor: Any) -> None:
        self._actor = actor
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

    def cancel_branches(self, request: str | None = None) -> None:
        """Nothing: each piece of work is a call, which :meth:`send` cancels."""

    async def latency(self) -> tuple[float, float]:
        """Half of the fastest round trip, and the least processor time that one took here."""
        trips, work = [], []
        for _ in range(_PINGS):
            started, worked = time.perf_counter(), time.process_time()
            await self.ping()
            trips.append(time.perf_counter() - started)
            work.append(time.process_time() - worked)
        return min(trips) / 2, min(work)

    async def ping(self) -> None:
        """Returns when the server has answered."""
        await self._actor.ping.remote()

    async def reopen(self) -> bool:
        """There is nothing to open: the server is lost."""
        return False

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
            self._listener([Ended(task, EndReason.CANCELLED) for task in tasks])
