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
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from dsi_ray.config import ModelConfig
from dsi_ray.core.messages import Ended, Event, Mode, Output, Reason, ServerId, Task
from dsi_ray.core.session import ServerSession, Step
from dsi_ray.models.base import ForwardCancelled, Forwarded, LanguageModel, ModelInfo, Sampling
from dsi_ray.models.load import load_model
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.wire import pack_events, unpack_task

_WARM_UP_FORWARDS = 5


@dataclass(slots=True)
class _Session:
    sampling: Sampling
    state: ServerSession = field(default_factory=ServerSession)


class ModelServer:
    """Runs the tasks of all requests on one model.

    Args:
        config: The model and its resources.
        server: Role and index, for names.
    """

    def __init__(self, config: ModelConfig, server: ServerId) -> None:
        self._server = server
        self._config = config
        self._sessions: dict[str, _Session] = {}
        self._ends: dict[int, asyncio.Event] = {}
        self._outbox: list[Event] = []
        self._has_events = asyncio.Event()
        self._has_work = asyncio.Event()
        self._computing: _Session | None = None
        self._stop = threading.Event()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=f"{server}-forward")
        self._worker: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"ModelServer({self._server})"

    async def load(self) -> ModelInfo:
        """Loads the model; everything else comes after it.

        Raises:
            ModelError: It cannot be used.
        """
        # In the thread of the forwards: the number of torch threads is a thread's own.
        load = functools.partial(load_model, self._config, self._server.role, self._server.index)
        loop = asyncio.get_running_loop()
        self._model: LanguageModel = await loop.run_in_executor(self._executor, load)
        return self._model.info

    async def measure(self) -> float:
        """Warms the model up and returns the seconds of one single-token forward."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._measure)

    async def ping(self) -> None:
        """Answers, for measuring the latency of messages."""

    async def extend(self, task: Task, mode: Mode, sampling: Sampling) -> None:
        """Runs a task; returns at its end. What it yields goes into :meth:`events`.

        Cancelling this call ends the task and stops its forward at the next layer.
        """
        session = self._sessions.get(task.request)
        if session is None:
            session = self._sessions[task.request] = _Session(sampling)
        ended = self._ends[task.id] = asyncio.Event()
        self._take(session, session.state.submit(task, mode))
        try:
            await ended.wait()
        except asyncio.CancelledError:
            self._take(session, session.state.cancel(task.id))
            raise

    async def extend_packed(self, call: bytes) -> None:
        """:meth:`extend` for callers in other processes."""
        await self.extend(*unpack_task(call))

    async def release(self, request: str) -> None:
        """Forgets a request; its tasks have ended."""
        self._sessions.pop(request, None)
        # In the forwards' thread, since a model is used by one thread at a time.
        self._executor.submit(self._model.release, request)

    async def events(self) -> AsyncIterator[list[Event]]:
        """Yields what happened since the last item, for all requests together."""
        while True:
            await self._has_events.wait()
            self._has_events.clear()
            events, self._outbox = self._outbox, []
            yield events

    async def stream(self) -> AsyncIterator[bytes]:
        """:meth:`events` for listeners in other processes."""
        async for events in self.events():
            yield pack_events(events)

    async def status(self) -> dict[str, Any]:
        """What the server does now."""
        busy = sum(not session.state.idle for session in self._sessions.values())
        return {
            "server": str(self._server),
            "pid": os.getpid(),
            "model": self._model.info.name,
            "running_tasks": busy,
            "cache": asdict(self._model.cache_stats),
        }

    def _take(self, session: _Session, events: list[Event]) -> None:
        """Publishes events and lets the worker see what has changed."""
        for event in events:
            if not (isinstance(event, Output) and event.goes_on):
                ended = self._ends.pop(event.task, None)
                if ended is not None:
                    ended.set()
        self._outbox += events
        if session.state.idle or not all(_can_wait(event) for event in events):
            self._has_events.set()
        if session.state.interrupted and self._computing is session:
            self._stop.set()
        self._has_work.set()
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        """Computes forwards as long as there are any."""
        while True:
            job = self._next_job()
            if job is None:
                self._has_work.clear()
                await self._has_work.wait()
            else:
                await self._compute(*job)

    def _next_job(self) -> tuple[str, _Session, Step] | None:
        """The next forward; the requests take turns."""
        for request, session in self._sessions.items():
            step = session.state.next_step()
            if step is not None:
                self._sessions[request] = self._sessions.pop(request)
                return request, session, step
        return None

    async def _compute(self, request: str, session: _Session, step: Step) -> None:
        self._stop.clear()
        self._computing = session
        started = time.perf_counter()
        try:
            forwarded = await asyncio.get_running_loop().run_in_executor(
                self._executor, self._forward, request, step, session.sampling
            )
        except ForwardCancelled:
            session.state.stopped()
        except Exception as error:
            # A request's error is its own: the server goes on with the others.
            self._take(session, session.state.fail(f"{type(error).__name__}: {error}"))
        else:
            seconds = time.perf_counter() - started
            self._take(
                session,
                session.state.finish(forwarded.tokens, seconds, forwarded.logprobs),
            )
        finally:
            self._computing = None

    def _forward(self, request: str, step: Step, sampling: Sampling) -> Forwarded:
        return self._model.extend(request, step.tokens, step.start, sampling, self._stop)

    def _measure(self) -> float:
        tokens, seconds = [0, 0], []
        greedy = Sampling(SamplingParams(), len(tokens))
        for _ in range(_WARM_UP_FORWARDS):
            started = time.perf_counter()
            self._model.extend("", tokens, len(tokens), greedy, threading.Event())
            seconds.append(time.perf_counter() - started)
            tokens.append(0)
        self._model.release("")
        return statistics.median(seconds[1:])


def _can_wait(event: Event) -> bool:
    """Whether the coordinator knows already, having caused it: it travels with the next output."""
    return isinstance(event, Ended) and event.reason in (Reason.REPLACED, Reason.DROPPED)
