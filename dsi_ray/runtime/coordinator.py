"""Coordinator: drives the decoders over the model servers' event streams."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup

from dsi_ray.config import Algorithm, EngineConfig
from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import DSI, SI, Decoder, NonSI, Request
from dsi_ray.core.messages import (
    Cancel,
    Command,
    Emit,
    Ended,
    Event,
    Fail,
    FinishReason,
    Mode,
    Output,
    Reason,
    Role,
    ServerId,
    Start,
    Task,
)
from dsi_ray.core.planner import Pace
from dsi_ray.core.pool import TargetPool
from dsi_ray.models.base import ModelInfo
from dsi_ray.runtime.errors import EngineError
from dsi_ray.runtime.placement import measure_pace, start_servers
from dsi_ray.runtime.ray_errors import root_cause
from dsi_ray.runtime.request import Decoding, Generation, RequestStats, TokenChunk, histogram, join
from dsi_ray.runtime.servers import Background, Server
from dsi_ray.runtime.trace.record import RequestTrace
from dsi_ray.runtime.trace.recorder import TraceRecorder
from dsi_ray.runtime.trace.spans import Trace


@dataclass(slots=True, eq=False)
class _Active:
    """A request in flight, or one whose last tasks are still ending."""

    generation: Generation
    decoder: Decoder
    trace: RequestTrace
    arrived: float
    chunks: "asyncio.Queue[TokenChunk | EngineError]" = field(default_factory=asyncio.Queue)
    first: float = 0.0
    last: float = 0.0
    messages: int = 0

    @property
    def elapsed(self) -> float:
        """Seconds since its arrival."""
        return time.perf_counter() - self.arrived


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """Facts about a started group.

    Attributes:
        target: The target model.
        drafters: The drafters' models, by rank.
        max_context: Most tokens, prompt and output, that all of them take.
    """

    target: ModelInfo
    drafters: tuple[ModelInfo, ...]
    max_context: int


class Coordinator:
    """The event loop of one DSI group: events of servers in, commands to servers out.

    A Ray actor. It owns the model servers, so that they end with it.
    """

    def __init__(self, config: EngineConfig, group: PlacementGroup) -> None:
        self._servers = start_servers(config, group)
        self._pool = TargetPool(s for s in self._servers if s.role is Role.TARGET)
        self._drafters = [s for s in self._servers if s.role is Role.DRAFTER]
        self._pace = Pace(0.0, 0.0)
        self._active: dict[str, _Active] = {}
        self._of_task: dict[int, tuple[_Active, ServerId]] = {}
        self._task_ids = itertools.count()
        self._traces = TraceRecorder()
        self._background = Background()
        self._lost: set[ServerId] = set()
        self._failure: EngineError | None = None

    async def start(self) -> GroupInfo:
        """Loads all models, warms them up and begins to read the servers' events.

        Raises:
            ModelError: A model cannot be used.
        """
        try:
            infos = await asyncio.gather(*(server.load() for server in self._servers.values()))
        except ray.exceptions.RayTaskError as error:
            raise root_cause(error) from None
        self._pace = await measure_pace(self._servers)
        for server_id, server in self._servers.items():
            self._background.start(self._listen(server_id, server))
        of = dict(zip(self._servers, infos, strict=True))
        return GroupInfo(
            of[ServerId(Role.TARGET, 0)],
            tuple(of[drafter] for drafter in self._drafters),
            min(info.max_context for info in infos),
        )

    async def generate(self, generation: Generation) -> AsyncGenerator[TokenChunk, None]:
        """Yields tokens as they are committed. Closing it ends the request everywhere.

        Raises:
            EngineError: A server failed.
        """
        active = self._admit(generation)
        try:
            while True:
                chunk = await active.chunks.get()
                if isinstance(chunk, EngineError):
                    raise chunk
                yield chunk
                if chunk.finish_reason is not None:
                    return
        finally:
            self._leave(active)

    async def complete(self, generation: Generation) -> TokenChunk:
        """All tokens at once, in one message."""
        async with contextlib.aclosing(self.generate(generation)) as stream:
            chunks = [chunk async for chunk in stream]
        return join(chunks)

    async def stop(self, request: str) -> None:
        """Ends a request whose text is complete: a last chunk without tokens follows."""
        active = self._active.get(request)
        if active is not None and not active.decoder.over:
            active.chunks.put_nowait(TokenChunk((), FinishReason.STOP, self._stats(active)))
            self._leave(active)

    async def status(self) -> dict[str, Any]:
        """Requests in flight, what each server does, and the latencies in force (ms)."""
        alive = [server for name, server in self._servers.items() if name not in self._lost]
        servers = await asyncio.gather(*(server.status() for server in alive))
        return {
            "healthy": self._failure is None,
            "requests": sum(not active.decoder.over for active in self._active.values()),
            "tasks": len(self._of_task),
            "servers": servers,
            "lost": sorted(map(str, self._lost)),
            "target_ms": self._pace.target * 1e3,
            "drafter_ms": self._pace.drafter * 1e3,
            "message_ms": self._pace.message * 1e3,
            "acceptance_rate": self._pace.acceptance,
            "lookahead": self._pace.lookahead(max(1, self._pool.size)),
        }

    async def trace(self, request: str, since: float) -> list[Trace]:
        """What each server did for a request, or for all parts of one; nothing if unknown."""
        return [self._snapshot(trace, since) for trace in self._traces.find(request)]

    def _snapshot(self, trace: RequestTrace, since: float) -> Trace:
        active = self._active.get(trace.request)
        if active is None:
            return trace.snapshot(0.0, since)
        self._note_stats(active)
        return trace.snapshot(active.elapsed, since)

    def _note_stats(self, active: _Active) -> None:
        """Puts the figures into the trace; before the first commit there are none."""
        if active.first:
            active.trace.stats = self._stats(active)

    def _admit(self, generation: Generation) -> _Active:
        if self._failure is not None:
            raise self._failure
        decoder = self._decoder(generation)
        trace = self._traces.open(decoder.request, generation.decoding.algorithm)
        active = _Active(generation, decoder, trace, time.perf_counter())
        self._active[generation.id] = active
        self._execute(active, decoder.start())
        return active

    def _decoder(self, generation: Generation) -> Decoder:
        decoding = generation.decoding
        algorithm = decoding.algorithm if self._drafters else Algorithm.NON_SI
        request = Request(
            generation.id,
            generation.prompt,
            StopCriteria(generation.params.max_tokens, generation.stop_ids),
            self._pool.assign(generation.id, self._sp_degree(decoding)),
            tuple(self._drafters) if algorithm is not Algorithm.NON_SI else (),
            self._task_ids,
        )
        chosen = None if decoding.lookahead == "auto" else decoding.lookahead
        match algorithm:
            case Algorithm.DSI:
                return DSI(request, self._pace.plan(len(request.targets), chosen))
            case Algorithm.SI:
                return SI(request, chosen or self._pace.si_lookahead())
            case Algorithm.NON_SI:
                return NonSI(request)

    def _sp_degree(self, decoding: Decoding) -> int:
        return decoding.sp_degree if decoding.algorithm is Algorithm.DSI else 1

    async def _listen(self, server_id: ServerId, server: Server) -> None:
        try:
            await server.listen(self._on_events)
        except Exception as error:
            self._lose(server_id, f"{server_id} was lost: {type(error).__name__}")

    def _lose(self, server_id: ServerId, error: str) -> None:
        """A server died: its tasks fail, and nothing more is sent to it."""
        self._lost.add(server_id)
        if server_id.role is Role.TARGET:
            self._pool.lose(server_id)
        else:
            self._drafters.remove(server_id)
        if not self._pool.size:
            self._failure = EngineError(error)
        tasks = [task for task, (_, where) in self._of_task.items() if where == server_id]
        self._on_events([Ended(task, Reason.FAILED, error) for task in tasks])

    def _on_events(self, events: list[Event]) -> None:
        """One item of a server's stream: everything that one of its steps produced."""
        by_request: dict[str, list[Event]] = {}
        for event in events:
            entry = self._of_task.get(event.task)
            if entry is None:
                continue
            active, server_id = entry
            active.trace.hear(event, active.elapsed)
            if isinstance(event, Output) and event.seconds:
                self._observe(server_id, event)
            if not (isinstance(event, Output) and event.goes_on):
                del self._of_task[event.task]
                self._servers[server_id].ended(event.task)
            if active.generation.id not in by_request:
                # All events of an item are one server's.
                active.messages += self._servers[server_id].crosses
            by_request.setdefault(active.generation.id, []).append(event)
        for request, news in by_request.items():
            active = self._active[request]
            self._adapt(active)
            self._execute(active, active.decoder.handle(news))
            self._settle(active)

    def _adapt(self, active: _Active) -> None:
        if isinstance(active.decoder, DSI) and active.generation.decoding.lookahead == "auto":
            self._pace.adapt(active.decoder)

    def _observe(self, server_id: ServerId, output: Output) -> None:
        seconds = output.seconds / output.forwards
        if server_id.role is Role.TARGET:
            self._pace.observe_target(seconds)
        else:
            self._pace.observe_drafter(seconds)

    def _execute(self, active: _Active, commands: Iterable[Command]) -> None:
        for command in commands:
            active.trace.say(command, active.elapsed)
            match command:
                case Start(task, mode):
                    self._start_task(active, task, mode)
                case Cancel(task):
                    _, server_id = self._of_task[task]
                    active.messages += self._servers[server_id].crosses
                    self._servers[server_id].cancel(task)
                case Emit():
                    self._emit(active, command)
                case Fail(error):
                    active.chunks.put_nowait(EngineError(error))

    def _start_task(self, active: _Active, task: Task, mode: Mode) -> None:
        self._of_task[task.id] = active, task.server
        if task.server in self._lost:
            failed = Ended(task.id, Reason.FAILED, f"{task.server} was lost")
            asyncio.get_running_loop().call_soon(lambda: self._on_events([failed]))
            return
        server = self._servers[task.server]
        # The call and its reply.
        active.messages += 2 * server.crosses
        sampling = active.generation.sampling
        is_target = task.server.role is Role.TARGET
        server.send(task, mode, sampling if is_target else sampling.for_drafters)

    def _emit(self, active: _Active, emit: Emit) -> None:
        active.last = time.perf_counter()
        active.first = active.first or active.last
        stats = self._stats(active) if emit.finish is not None else None
        active.chunks.put_nowait(TokenChunk(emit.tokens, emit.finish, stats, emit.logprobs))

    def _stats(self, active: _Active) -> RequestStats:
        decoder = active.decoder
        prompt_tokens = len(active.generation.prompt)
        completion_tokens = len(decoder.tree.tokens) - prompt_tokens
        later = max(1, completion_tokens - 1)
        return RequestStats(
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            seconds=active.last - active.arrived,
            ttft_ms=(active.first - active.arrived) * 1e3,
            tpot_ms=(active.last - active.first) / later * 1e3,
            drafted_tokens=decoder.counts.drafted_tokens,
            accepted_tokens=decoder.tree.accepted,
            rejected_tokens=decoder.tree.rejected,
            target_forwards=decoder.counts.target_forwards,
            drafter_forwards=decoder.counts.drafter_forwards,
            cancelled_tasks=decoder.counts.cancelled_tasks,
            messages=active.messages,
            seed=active.generation.sampling.seed_in_use,
            acceptance_histogram=histogram(decoder.tree.runs),
        )

    def _leave(self, active: _Active) -> None:
        """The client has all, or has gone: what still runs is cancelled."""
        active.trace.end(active.elapsed)
        self._execute(active, active.decoder.abandon())
        self._settle(active)

    def _settle(self, active: _Active) -> None:
        """Forgets a request once it is over and the ends of all its tasks were heard."""
        request = active.decoder.request
        over = active.decoder.over and active.decoder.idle
        if over and self._active.pop(request.id, None) is not None:
            tree = active.decoder.tree
            self._note_stats(active)
            self._pace.observe_request(tree.accepted, tree.rejected)
            self._pool.release(request.id)
            for server_id in (*request.targets, *request.drafters):
                if server_id not in self._lost:
                    self._servers[server_id].release(request.id)
