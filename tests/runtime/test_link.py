"""Links on real Ray: what is cancelled with a request, and what is not."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any, cast

import pytest
import ray

from dsi_ray.config import EngineConfig
from dsi_ray.runtime.group_handle import GroupHandle
from dsi_ray.runtime.hosted_group import HostedGroup
from dsi_ray.runtime.request import Generation

from .lonely import generation, until

CALLS = 8


class Caller:
    """An actor whose calls are requests, as those of an ingress are."""

    def __init__(self, coordinator: Any) -> None:
        self._group = GroupHandle(coordinator)

    async def ask(self, request: Generation) -> int:
        """The number of tokens that it got."""
        async with aclosing(self._group.generate(request)) as chunks:
            return sum([len(chunk.tokens) async for chunk in chunks])


@pytest.fixture(scope="module")
def group(ray_cluster: None) -> Iterator[HostedGroup]:
    config = {"target": "simulated:tpot_ms=5", "drafters": ["lookup"], "sp_degree": 2}
    group = HostedGroup(EngineConfig.model_validate(config), 0)
    try:
        group.load()
        yield group
    finally:
        group.close()


def test_a_cancelled_request_ends_alone_and_everywhere(group: HostedGroup) -> None:
    """The first one too, in which the stream of all the others began."""
    coordinator = group.coordinator
    caller: Any = ray.remote(Caller).options(max_concurrency=100).remote(coordinator)

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
