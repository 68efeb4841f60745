"""ModelServer: hosts one model; target server and drafter are two roles of it.

It runs as a Ray actor, or inside the coordinator where a model needs no device of its own. The
event loop takes calls; forwards run one at a time in a thread beside it.
"""

import asyncio
import functools
import os
import statistics
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from dsi_ray.config import ModelConfig
from dsi_ray.core.messages import Event, Mode, Output, ServerId, Task
from dsi_ray.models.base import LanguageModel, ModelInfo, Sampling
from dsi_ray.models.load import load_model
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.forwards import Forwards
from dsi_ray.runtime.wire import pack_events, unpack_task

_WARM_UP_FORWARDS = 5


class ModelServer:
    """Runs the tasks of all requests on one model.

    Args:
        config: The model and its resources.
        server: Role and index, for names.
    """

    def __init__(self, config: ModelConfig, server: ServerId) -> None:
        self._server = server
        self._config = config
        self._forwards = Forwards(f"{server}-forward", self._hear)
        self._ends: dict[int, asyncio.Event] = {}
        self._outbox: deque[list[Event]] = deque()
        self._has_events = asyncio.Event()

    def __repr__(self) -> str:
        return f"ModelServer({self._server})"

    async def load(self) -> ModelInfo:
        """Loads the model; everything else comes after it.

        Raises:
            ModelError: It cannot be used.
        """
        self._loop = asyncio.get_running_loop()
        load = functools.partial(load_model, self._config, self._server.role, self._server.index)
        self._model = await asyncio.wrap_future(self._forwards.start(load))
        return self._model.info

    async def measure(self) -> float:
        """Warms the model up and returns the seconds of one single-token forward."""
        return await asyncio.wrap_future(self._forwards.run(_measure))

    async def ping(self) -> None:
        """Answers, for measuring the latency of messages."""

    async def extend(self, task: Task, mode: Mode, sampling: Sampling) -> None:
        """Runs a task; returns at its end. What it yields goes into :meth:`events`.

        Cancelling this call ends the task and stops its forward at the next layer.
        """
        ended = self._ends[task.id] = asyncio.Event()
        self._forwards.submit(task, mode, sampling)
        try:
            await ended.wait()
        except asyncio.CancelledError:
            self._forwards.cancel(task.request, task.id)
            raise

    async def extend_packed(self, call: bytes) -> None:
        """:meth:`extend` for callers in other processes."""
        await self.extend(*unpack_task(call))

    async def release(self, request: str) -> None:
        """Forgets a request; its tasks have ended."""
        self._forwards.release(request)

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

    def _publish(self, over: list[int], urgent: bool) -> None:
        """Lets the calls of ended tasks return, and the event stream go on."""
        for task in over:
            ended = self._ends.pop(task, None)
            if ended is not None:
                ended.set()
        if urgent:
            self._has_events.set()


def _measure(model: LanguageModel) -> float:
    tokens, seconds = [0, 0], []
    greedy = Sampling(SamplingParams(), len(tokens))
    for _ in range(_WARM_UP_FORWARDS):
        started = time.perf_counter()
        model.extend("", tokens, len(tokens), greedy, threading.Event())
        seconds.append(time.perf_counter() - started)
        tokens.append(0)
    model.release("")
    return statistics.median(seconds[1:])
