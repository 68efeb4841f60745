"""Lanes between real actors: lost ones are opened again, and a ref ends what runs for a request."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import ray

from dsi_ray.config import ModelConfig, Transport
from dsi_ray.core.messages import Ended, EndReason, Event, Mode, Output, Role, ServerId, Task
from dsi_ray.core.path import Path
from dsi_ray.models.base import Sampling
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.coordinator.servers import RemoteServer
from dsi_ray.runtime.server.model_server import ModelServer
from dsi_ray.runtime.transport.lanes import lane as lanes
from dsi_ray.runtime.transport.lanes import work_lane
from dsi_ray.runtime.transport.lanes.lane import LaneEnded
from dsi_ray.runtime.transport.lanes.opening import open_lane
from dsi_ray.runtime.transport.lanes.work_lane import WorkLane
from dsi_ray.runtime.transport.work import Work

SERVER = ServerId(Role.TARGET, 0)
MODEL = ModelConfig.model_validate(ModelConfig.parse("simulated:tpot_ms=1"))


def work(number: int, limit: int) -> Work:
    task = Task(number, f"r{number}", SERVER, Path.of((1, 2, 3)), 3, limit)
    return Work([(task, Mode.REPLACE, Sampling(SamplingParams(), 3))])


@asynccontextmanager
async def listened_to(server: RemoteServer) -> AsyncIterator["asyncio.Queue[Event]"]:
    heard: asyncio.Queue[Event] = asyncio.Queue()

    def hear(events: list[Event]) -> None:
        for event in events:
            heard.put_nowait(event)

    listening = asyncio.ensure_future(server.listen(hear))
    yield heard
    listening.cancel()


def with_server(test: Callable[[Any, RemoteServer], Awaitable[None]]) -> None:
    actor: Any = (
        ray.remote(ModelServer).options(num_cpus=0, max_concurrency=100).remote(MODEL, SERVER, 0)
    )

    async def run() -> None:
        server = RemoteServer(actor, Transport.LANES, (0,))
        await server.load()
        async with asyncio.timeout(60):
            await test(actor, server)
        assert isinstance(server._channel, WorkLane)
        server._channel.lane.close()
        await server._channel.lane.end

    try:
        asyncio.run(run())
    finally:
        ray.kill(actor)


async def serves(server: RemoteServer, number: int) -> None:
    async with listened_to(server) as heard:
        server.send(work(number, 0))
        assert isinstance(output := await heard.get(), Output)
        assert (output.task, len(output.tokens)) == (number, 1)


def test_a_lane_that_is_lost_is_opened_again_and_brings_everything_anew(
    ray_cluster: None,
) -> None:
    async def test(actor: Any, server: RemoteServer) -> None:
        await serves(server, 1)
        # Whoever opens another lane ends the one that is there.
        (await open_lane(actor.lane, (0,))).connection.close()
        with pytest.raises(LaneEnded):
            await server.listen(lambda _: None)
        assert await server.reopen()
        await serves(server, 2)
        assert (await server.status())["running_tasks"] == 0

    with_server(test)


def test_a_server_that_is_dead_is_not_opened_again(ray_cluster: None) -> None:
    async def test(actor: Any, server: RemoteServer) -> None:
        os.kill((await server.status())["pid"], signal.SIGKILL)
        with pytest.raises(LaneEnded):
            await server.listen(lambda _: None)
        assert not await server.reopen()

    with_server(test)


def test_a_stopped_server_blocks_nobody_and_is_given_up_once_too_much_waits_for_it(
    ray_cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "MAX_UNSENT", 2**20)

    async def test(actor: Any, server: RemoteServer) -> None:
        pid = (await server.status())["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            listening = asyncio.ensure_future(server.listen(lambda _: None))
            number = 0
            while not listening.done():
                for _ in range(1000):
                    server.send(work(number, 0))
                    number += 1
                await asyncio.sleep(0)
            assert "nobody reads" in str(listening.exception())
        finally:
            os.kill(pid, signal.SIGCONT)
        # What it had not read it has lost, and what it had read it has dropped.
        assert await server.reopen()
        await serves(server, 10**6)

    with_server(test)


def test_a_ref_ends_what_runs_for_a_request(
    ray_cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_lane, "_SHORT_S", 0.0)

    async def test(actor: Any, server: RemoteServer) -> None:
        async with listened_to(server) as heard:
            server.send(work(1, 10**6))
            while not isinstance(event := await heard.get(), Ended):
                # The ref is there once the request is.
                server.cancel_branches("r1")
            assert event == Ended(1, EndReason.CANCELLED)
            server.send(Work(releases=["r1"]))
        await serves(server, 2)

    with_server(test)
