"""Links on real Ray: what is cancelled with a request, and what is not."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any, cast

import pytest
import ray

from dsi_ray.config import EngineConfig, Transport
from dsi_ray.runtime.client.group_handle import GroupHandle
from dsi_ray.runtime.group_info import GroupInfo
from dsi_ray.runtime.request import Generation
from dsi_ray.runtime.supervisor.hosted_group import HostedGroup

from .lonely import generation, until

CALLS = 8


class Caller:
    """An actor whose calls are requests, as those of an ingress are."""

    def __init__(self, coordinator: Any, info: GroupInfo) -> None:
        self._group = GroupHandle(coordinator, info)

    async def ask(self, request: Generation) -> int:
        """The number of tokens that it got."""
        async with aclosing(self._group.generate(request)) as chunks:
            return sum([len(chunk.tokens) async for chunk in chunks])


@pytest.fixture(scope="module", params=[Transport.LANES, Transport.CALLS])
def group(
    request: pytest.FixtureRequest, ray_cluster: None
) -> Iterator[tuple[HostedGroup, GroupInfo]]:
    pair = {"target": "simulated:tpot_ms=5", "drafters": ["lookup"], "sp_degree": 2}
    config = EngineConfig.model_validate({**pair, "transport": request.param})
    hosted = HostedGroup(config, 0)
    try:
        yield hosted, hosted.load()
    finally:
        hosted.close()


def test_a_cancelled_request_ends_alone_and_everywhere(
    group: tuple[HostedGroup, GroupInfo],
) -> None:
    """The first one too, in which the stream of all the others began."""
    coordinator, info = group[0].coordinator, group[1]
    caller: Any = ray.remote(Caller).options(max_concurrency=100).remote(coordinator, info)

    async def status() -> dict[str, Any]:
        return cast(dict[str, Any], await coordinator.status.remote())

    async def scenario() -> None:
        endless = [caller.ask.remote(generation(100_000)) for _ in range(CALLS)]
        short = caller.ask.remote(generation(200))
        await until(status, lambda status: status["requests"] == CALLS + 1)
        for call in endless:
            ray.cancel(call)
        assert await short == 200
        await until(status, lambda status: not status["tasks"])

    asyncio.run(scenario())
