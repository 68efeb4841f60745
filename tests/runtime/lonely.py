"""A whole group in one process, without Ray: its coordinator, and model servers inside it."""

import asyncio
import itertools
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dsi_ray.config import Algorithm, EngineConfig, ModelConfig
from dsi_ray.core.messages import ServerId
from dsi_ray.models.base import ModelInfo, Sampling
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.coordinator import coordinator as coordinators
from dsi_ray.runtime.coordinator.coordinator import Coordinator
from dsi_ray.runtime.coordinator.servers import LocalServer
from dsi_ray.runtime.request import Decoding, Generation, TokenChunk
from dsi_ray.runtime.server.model_server import ModelServer
from dsi_ray.runtime.transport.calls.outbox import unpack_deliveries
from dsi_ray.runtime.transport.calls.work_calls import Listener
from dsi_ray.runtime.transport.lanes.work_lane import WorkLane
from dsi_ray.runtime.transport.work import Work

_IDS = itertools.count()


class MortalServer(LocalServer):
    """A model server that can die as if it were another process."""

    def __init__(self, server: ModelServer) -> None:
        super().__init__(server)
        self._doomed = False
        self._dead = asyncio.Event()

    async def listen(self, listener: Listener) -> None:
        """Passes on what the server reports, until it dies."""
        news = asyncio.ensure_future(super().listen(listener))
        end = asyncio.ensure_future(self._dead.wait())
        await asyncio.wait({news, end}, return_when=asyncio.FIRST_COMPLETED)
        end.cancel()
        if news.done():
            news.result()
        news.cancel()
        raise EOFError("the server is dead")

    def send(self, work: Work) -> None:
        """Hands over all that there is for the server at one moment."""
        super().send(work)
        if self._doomed and work.starts:
            self._dead.set()

    def die(self) -> None:
        """Dies of the next task that it gets."""
        self._doomed = True


class MortalLaneServer(MortalServer):
    """The same at the other end of a lane, whose end is all that is heard of its death."""

    messages = 1

    def __init__(self, server: ModelServer) -> None:
        super().__init__(server)
        no_refs = SimpleNamespace(branches=SimpleNamespace(remote=lambda _: None))
        self.work = WorkLane(no_refs, ())

    async def load(self) -> ModelInfo:
        """Loads the model and opens the lane."""
        info = await self._server.load()
        ours, theirs = socket.socketpair()
        self.lane = self._server.attach(theirs)
        self.work.attach(ours)
        return info

    async def listen(self, listener: Listener) -> None:
        """Passes on what the server reports, until the lane ends."""
        await self.work.listen(listener)

    def send(self, work: Work) -> None:
        """Sends all that there is for the server at one moment."""
        self.work.send(work)
        if self._doomed and work.starts:
            self.lane.close()


class Mortals(dict[ServerId, MortalServer]):
    """The servers of the coordinators that are made after this, by name.

    They take the place of those in processes of their own, which only Ray can start.
    """

    def __init__(self, patch: pytest.MonkeyPatch, kind: type[MortalServer] = MortalServer) -> None:
        super().__init__()
        self._kind = kind
        self._made: list[MortalServer] = []
        patch.setattr(coordinators, "start_server", self._start)

    def _start(self, config: EngineConfig, server: ServerId, _: object, group: int) -> MortalServer:
        model = coordinators.server_models(config)[server]
        self[server] = self._kind(ModelServer(model, server, group))
        self._made.append(self[server])
        return self[server]

    async def end(self) -> None:
        """Ends all that goes on in the loop, and then the lanes, with nobody left to mind."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for server in self._made:
            if isinstance(server, MortalLaneServer):
                for lane in (server.lane, server.work.lane):
                    lane.close()
                    await lane.end


async def lonely_coordinator() -> Coordinator:
    """A coordinator that has started, with two target servers and a drafter."""
    pair = {"target": "simulated:tpot_ms=2", "drafters": ["simulated:tpot_ms=1"], "sp_degree": 2}
    config = EngineConfig.model_validate(pair)
    drafters = tuple(map(_inside, config.drafters))
    config = config.model_copy(update={"target": _inside(config.target), "drafters": drafters})
    coordinator = Coordinator(config, cast(Any, None), 0)
    await coordinator.start()
    return coordinator


def _inside(model: ModelConfig) -> ModelConfig:
    # A configuration is refused that asks for this, as a target's crash would be the group's.
    return model.model_copy(update={"own_process": False})


def generation(max_tokens: int = 20) -> Generation:
    """A request; all have one prompt, and so one text."""
    sampling = Sampling(SamplingParams(max_tokens=max_tokens), prompt_tokens=2)
    decoding = Decoding(Algorithm.DSI, sp_degree=2)
    return Generation(f"request-{next(_IDS)}", [1, 2], frozenset(), sampling, decoding)


class Client:
    """Reads the stream of what its requests get, as the other end of a link does.

    Attributes:
        chunks: By ticket.
    """

    def __init__(self, coordinator: Coordinator, name: str = "client") -> None:
        self.name = name
        self.chunks: dict[str, list[TokenChunk | Exception]] = {}
        self._coordinator = coordinator
        self._news = asyncio.Event()
        self._life: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.reader = asyncio.create_task(self._read())

    async def submit(self, ticket: str, request: Generation) -> None:
        """Sends a request; if that fails the request has."""
        try:
            await self._coordinator.submit(self.name, ticket, request)
        except Exception as error:
            self.chunks[ticket] = [error]

    async def tokens(self, ticket: str) -> tuple[int, ...]:
        """The whole text of a request.

        Raises:
            Exception: It failed, or the stream did.
        """
        tokens: tuple[int, ...] = ()
        for number in itertools.count():
            chunk = await self.chunk(ticket, number)
            if isinstance(chunk, Exception):
                raise chunk
            tokens += chunk.tokens
            if chunk.finish_reason is not None:
                break
        return tokens

    async def chunk(self, ticket: str, number: int) -> TokenChunk | Exception:
        """One of those that a request gets."""
        while len(self.chunks.get(ticket, ())) <= number:
            if self.reader.done():
                self.reader.result()
                raise EOFError("the stream ended")
            self._news.clear()
            await self._news.wait()
        return self.chunks[ticket][number]

    def die(self) -> None:
        """The client's process ends; its coordinator hears of it."""
        self._life.set_result(None)

    async def _read(self) -> None:
        outputs = self._coordinator.outputs(self.name, cast(Any, [self._life]))
        try:
            async with aclosing(cast(AsyncGenerator[bytes], outputs)) as items:
                async for item in items:
                    for ticket, chunk in unpack_deliveries(item):
                        self.chunks.setdefault(ticket, []).append(chunk)
                    self._news.set()
        finally:
            self._news.set()


async def until_well(coordinator: Coordinator) -> dict[str, Any]:
    """Waits until a group has all its servers and nothing to do; returns its status."""

    def is_well(status: dict[str, Any]) -> bool:
        busy = [status[name] for name in ("requests", "tasks", "lost", "suspected")]
        return len(status["servers"]) == 3 and not any(busy)

    return await until(coordinator.status, is_well)


async def until(
    ask: Callable[[], Awaitable[dict[str, Any]]], holds: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Asks for a status until something holds of it; returns that one."""
    for _ in range(4_000):
        if holds(status := await ask()):
            return status
        await asyncio.sleep(0.005)
    raise AssertionError(status)
