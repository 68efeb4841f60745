"""ModelServer: hosts one model; target server and drafter are two roles of it.

It runs as a Ray actor, or inside the coordinator where a model needs no device of its own. The
event loop takes calls; forwards run one at a time in a thread beside it, each for all requests.
"""

import asyncio
import functools
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict
from typing import Any

from ray.actor import ActorHandle

from dsi_ray.config import ModelConfig
from dsi_ray.core.messages import Event, ServerId
from dsi_ray.models.base import ModelInfo
from dsi_ray.models.load import load_model
from dsi_ray.runtime.process.fatal import fatal_errors
from dsi_ray.runtime.server.calibration import measure_forwards
from dsi_ray.runtime.server.forward_loop import ForwardLoop
from dsi_ray.runtime.server.rank_workers import RankWorker, RankWorkers
from dsi_ray.runtime.transport.calls.served_calls import ServedCalls
from dsi_ray.runtime.transport.lanes.handshake import Address
from dsi_ray.runtime.transport.lanes.lane import Lane
from dsi_ray.runtime.transport.lanes.opening import Offer, host_lane
from dsi_ray.runtime.transport.lanes.served_lane import ServedLane
from dsi_ray.runtime.transport.work import Work, pack_events, unpack_work


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
        followers: Sequence["ActorHandle[RankWorker]"] = (),
    ) -> None:
        self._server = server
        self._group = group
        self._config = config
        self._followers = RankWorkers(followers) if followers else None
        self._forwards = ForwardLoop(f"{server}-forward", config.prefill_chunk)
        self._calls: ServedCalls
        self._lane: ServedLane | None = None

    def __repr__(self) -> str:
        return f"ModelServer(group {self._group}, {self._server})"

    async def load(self) -> ModelInfo:
        """Loads the model; everything else comes after it.

        Raises:
            ModelError: It cannot be used.
        """
        self._calls = ServedCalls(self._forwards)
        self._forwards.listener = self._calls.hear
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

    async def probe(self) -> None:
        """Returns once the forward that is under way has ended."""
        await asyncio.wrap_future(self._forwards.probe())

    async def lane(self, offer: Offer) -> AsyncIterator[Address]:
        """Opens a lane for the coordinator, and with it everything anew; lasts as long as it."""
        async for address in host_lane(offer, self.attach):
            yield address

    async def branches(self, request: str) -> None:
        """Lasts as long as a request is here over the lane; cancelling this call ends its tasks.

        So whatever runs for a request ends with an object ref, also if the lane does not move.
        """
        if self._lane is None or (released := self._lane.released(request)) is None:
            return
        try:
            await released.wait()
        except asyncio.CancelledError:
            self._forwards.abort(request)
            raise

    def connect(self, listener: Callable[[list[Event]], None]) -> Callable[[Work], None]:
        """For a caller in this process, whose listener is called in any thread.

        Returns:
            What takes its work.
        """
        self._forwards.listener = listener
        return self._forwards.take

    async def run_packed(self, work: bytes) -> None:
        """Runs work for a caller without a lane, who does not read how it ends."""
        with fatal_errors("a call of the coordinator"):
            await self._calls.run(unpack_work(work))

    async def stream(self) -> AsyncIterator[bytes]:
        """Yields what happened, for a caller without a lane."""
        async for events in self._calls.events():
            yield pack_events(events)

    async def ping(self) -> None:
        """Answers, for measuring the latency of calls."""

    async def status(self) -> dict[str, Any]:
        """What the server does now."""
        return {
            "server": str(self._server),
            "pid": os.getpid(),
            "processor_s": time.process_time(),
            "model": self._model.info.name,
            "running_tasks": self._forwards.busy,
            "transport": "calls" if self._lane is None else "lane",
            "cache": asdict(self._model.cache_stats),
        }

    def attach(self, connection: socket.socket) -> Lane:
        """Takes a new lane in the place of the one before, if there is one."""
        if self._lane is not None:
            self._lane.lane.close()
        self._forwards.clear()
        served = self._lane = ServedLane(connection, self._server, self._forwards.take)
        self._forwards.listener = served.hear
        served.lane.end.add_done_callback(lambda _: self._detach(served))
        return served.lane

    @fatal_errors("a lane")
    def _detach(self, served: ServedLane) -> None:
        """A lane has ended, and with it whoever waits for its work, unless there is another."""
        if self._lane is served:
            self._lane = None
            self._forwards.clear()
