"""ModelServer: hosts one model; target server and drafter are two roles of it.

It runs as a Ray actor, or inside the coordinator where a model needs no device of its own. The
event loop takes calls; forwards run one at a time in a thread beside it, each for all requests.
"""

import asyncio
import functools
import os
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Any

from ray.actor import ActorHandle

from dsi_ray.config import ModelConfig
from dsi_ray.core.messages import Ended, Event, Output, Reason, ServerId
from dsi_ray.models.base import ModelInfo
from dsi_ray.models.load import load_model
from dsi_ray.runtime.fatal import fatal_errors
from dsi_ray.runtime.followers import Follower, Followers
from dsi_ray.runtime.forwards import Forwards
from dsi_ray.runtime.warm_up import measure_forwards
from dsi_ray.runtime.wire import Work, pack_events, unpack_work

_EARLY_CANCELS = 256


class ModelServer:
    """Runs the tasks of all requests on one model.

    Args:
        config: The model and its resources.
        server: Role and index, for names.
        group: Which of several groups it is in, for names.
        followers: Actors with the model's other shards.
    """

    def __init__(
        self,
        config: ModelConfig,
        server: ServerId,
        group: int,
        followers: Sequence["ActorHandle[Follower]"] = (),
    ) -> None:
        self._server = server
        self._group = group
        self._config = config
        self._followers = Followers(followers) if followers else None
        self._forwards = Forwards(f"{server}-forward", config.prefill_chunk, self._hear)
        self._ends: dict[int, asyncio.Event] = {}
        self._early: deque[int] = deque(maxlen=_EARLY_CANCELS)
        """Cancelled tasks that have not arrived: calls need not keep their order."""
        self._outbox: deque[list[Event]] = deque()
        self._has_events = asyncio.Event()

    def __repr__(self) -> str:
        return f"ModelServer(group {self._group}, {self._server})"

    async def load(self) -> ModelInfo:
        """Loads the model; everything else comes after it.

        Raises:
            ModelError: It cannot be used.
        """
        self._loop = asyncio.get_running_loop()
        load = functools.partial(load_model, self._config, self._server.role, self._server.index)
        if self._followers is None:
            self._model = await asyncio.wrap_future(self._forwards.start(load))
        else:
            load = functools.partial(load, self._followers.begin())
            loading = asyncio.wrap_future(self._forwards.start(load))
            self._model = await self._followers.beside(loading)
        return self._model.info

    async def measure(self) -> list[tuple[int, float]]:
        """Warms the model up; seconds of a forward by the number of its tokens, 1 first."""
        return await asyncio.wrap_future(self._forwards.run(measure_forwards))

    async def ping(self) -> None:
        """Answers, for measuring the latency of messages."""

    async def probe(self) -> None:
        """Returns once the forward that is under way has ended."""
        await asyncio.wrap_future(self._forwards.probe())

    async def run(self, work: Work) -> None:
        """Runs tasks, cancels others, and returns at the end of the last one that it runs.

        What they yield goes into :meth:`events`. Cancelling this call ends its tasks and stops
        their forward at the next layer.
        """
        starts = [start for start in work.starts if start[0].id not in self._early]
        ends = {task.id: asyncio.Event() for task, _, _ in starts}
        self._ends |= ends
        if starts:
            self._forwards.submit(starts)
        if work.cancels:
            self._early += [task for _, task in work.cancels if task not in self._ends]
            self._forwards.cancel(work.cancels)
        if work.releases:
            self._forwards.release(work.releases)
        cancelled: list[Event] = [
            Ended(task.id, Reason.CANCELLED) for task, _, _ in work.starts if task.id not in ends
        ]
        if cancelled:
            self._hear(cancelled, urgent=True)
        try:
            for ended in ends.values():
                await ended.wait()
        except asyncio.CancelledError:
            self._forwards.cancel([(task.request, task.id) for task, _, _ in starts])
            raise

    async def run_packed(self, work: bytes) -> None:
        """:meth:`run` for callers in other processes, who do not read how it ends."""
        with fatal_errors("a call of the coordinator"):
            await self.run(unpack_work(work))

    async def events(self) -> AsyncIterator[list[Event]]:
        """Yields what happened since the last item, for all requests together."""
        while True:
            await self._has_events.wait()
            self._has_events.clear()
            events: list[Event] = []
            while self._outbox:
                events += self._outbox.popleft()
            if events:
                yield events

    async def stream(self) -> AsyncIterator[bytes]:
        """:meth:`events` for listeners in other processes."""
        async for events in self.events():
            yield pack_events(events)

    async def status(self) -> dict[str, Any]:
        """What the server does now."""
        return {
            "server": str(self._server),
            "pid": os.getpid(),
            "model": self._model.info.name,
            "running_tasks": self._forwards.busy,
            "cache": asdict(self._model.cache_stats),
        }

    def _hear(self, events: list[Event], urgent: bool) -> None:
        """Takes events from the thread of the forwards, or from this one, in order."""
        self._outbox.append(events)
        over = [e.task for e in events if not (isinstance(e, Output) and e.goes_on)]
        if over or urgent:
            self._loop.call_soon_threadsafe(self._publish, over, urgent)

    @fatal_errors("the events")
    def _publish(self, over: list[int], urgent: bool) -> None:
        """Lets the calls of ended tasks return, and the event stream go on."""
        for task in over:
            ended = self._ends.pop(task, None)
            if ended is not None:
                ended.set()
        if urgent:
            self._has_events.set()
