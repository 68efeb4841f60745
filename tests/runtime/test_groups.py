"""Several groups on real Ray: all serve, a lost one costs its own requests, and comes back."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, closing
from typing import Any

import pytest
import ray

from dsi_ray.config import ConfigError, EngineConfig
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine
from dsi_ray.runtime.client.groups import Groups
from dsi_ray.runtime.errors import GroupLost
from dsi_ray.runtime.request import Chunk
from dsi_ray.runtime.supervisor.group_directory import GroupDirectory
from dsi_ray.runtime.supervisor.group_supervisor import GroupSupervisor
from tests.cli.conftest import titles

from .fatal import StrayParams

GROUPS = 2
LONG = SamplingParams(max_tokens=100)
ENDLESS = SamplingParams(max_tokens=100_000)
SHORT = SamplingParams(max_tokens=10)
DEADLINE_S = 30

Statuses = Sequence[dict[str, Any]]


def new_engine(**settings: Any) -> Engine:
    defaults = {"target": "simulated:tpot_ms=5", "drafters": ["lookup"], "num_groups": GROUPS}
    return Engine(EngineConfig.model_validate({**defaults, **settings}))


def placement_groups() -> int:
    table = ray.util.placement_group_table()
    return sum(group["state"] != "REMOVED" for group in table.values())


@pytest.fixture(scope="module")
def others(ray_cluster: None) -> int:
    """Placement groups of other modules."""
    return placement_groups()


@pytest.fixture(scope="module")
def engine(others: int) -> Iterator[Engine]:
    with new_engine() as engine:
        yield engine
    assert placement_groups() == others


def actors() -> Counter[str]:
    """The processes of actors that this session's Ray runs, by what they call themselves."""
    # While a method runs, its name follows after a dot.
    names = [title.partition(".")[0] for title in titles(os.getpid()).values()]
    return Counter(name for name in names if name in ("ray::Coordinator", "ray::ModelServer"))


@pytest.fixture(autouse=True)
def _nothing_left_over(engine: Engine, others: int) -> Iterator[None]:
    """Lost groups leave no actor and no device behind, and no request as work to be done."""
    before = actors()
    yield
    deadline = time.monotonic() + DEADLINE_S
    while (after := actors()) != before:
        assert time.monotonic() < deadline, (before, after)
        time.sleep(0.1)
    assert placement_groups() == others + GROUPS
    assert engine._groups._router._load == [0] * GROUPS


async def kill(engine: Engine, *indices: int) -> None:
    """Ends the coordinators of groups as a crash would."""
    groups = (await engine.status())["groups"]
    for index in indices:
        os.kill(groups[index]["pid"], signal.SIGKILL)


async def until(engine: Engine, holds: Callable[[Statuses], bool]) -> Statuses:
    """Polls what the groups do; fails if ``holds`` does not come true."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds(groups := (await engine.status())["groups"]):
        assert time.monotonic() < deadline, groups
        await asyncio.sleep(0.02)
    return groups


def all_healthy(groups: Statuses) -> bool:
    return all(group["healthy"] for group in groups)


def requests(groups: Statuses) -> list[int]:
    return [group["requests"] for group in groups]


async def begin(engine: Engine, prompt: int) -> AsyncGenerator[Chunk]:
    """A request after its first token."""
    stream = engine.stream([prompt], LONG)
    await anext(stream)
    return stream


async def end(stream: AsyncGenerator[Chunk]) -> None:
    async for _ in stream:
        pass


def test_requests_are_spread_and_count_until_they_are_left(engine: Engine) -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            streams = [
                await stack.enter_async_context(aclosing(await begin(engine, prompt)))
                for prompt in range(3)
            ]
            assert sorted(requests((await engine.status())["groups"])) == [1, 2]
            for stream in streams[:2]:
                await stream.aclose()
            await until(engine, lambda groups: sorted(requests(groups)) == [0, 1])
            streams.append(await stack.enter_async_context(aclosing(await begin(engine, 3))))
            assert requests((await engine.status())["groups"]) == [1, 1]

    asyncio.run(scenario())


def test_all_groups_give_the_same_tokens(engine: Engine) -> None:
    # Idle groups take turns.
    assert len({engine.generate([7], SHORT).tokens for _ in range(GROUPS)}) == 1


def test_the_parts_of_a_request_are_found_in_all_groups(engine: Engine) -> None:
    names = [f"several/{part}" for part in (0, 1, 2, 10)]

    async def scenario() -> list[str]:
        for name in names:
            await end(engine.stream([1], SHORT, request_id=name))
        return [trace.request for trace in await engine.trace("several")]

    assert asyncio.run(scenario()) == names


def test_a_lost_group_costs_its_own_requests_and_is_built_again(engine: Engine) -> None:
    expected = engine.generate([1], SHORT).tokens

    async def scenario() -> None:
        rebuilds = [group["rebuilds"] for group in (await engine.status())["groups"]]
        streams = [await begin(engine, prompt) for prompt in range(2 * GROUPS)]
        await kill(engine, 0)
        results = await asyncio.gather(*map(end, streams), return_exceptions=True)
        assert sorted(type(result).__name__ for result in results) == [
            *["GroupLost"] * 2,
            *["NoneType"] * 2,
        ]
        # Whatever comes now goes where it is served.
        for _ in range(GROUPS):
            await end(engine.stream([1], SHORT))
        groups = await until(engine, all_healthy)
        assert [group["rebuilds"] for group in groups] == [rebuilds[0] + 1, *rebuilds[1:]]
        async with aclosing(await begin(engine, 1)), aclosing(await begin(engine, 2)):
            assert requests((await engine.status())["groups"]) == [1, 1]

    asyncio.run(scenario())
    assert {engine.generate([1], SHORT).tokens for _ in range(GROUPS)} == {expected}


def test_with_all_groups_lost_requests_fail_at_once_and_later_succeed(engine: Engine) -> None:
    async def scenario() -> None:
        await kill(engine, *range(GROUPS))
        for _ in range(2 * GROUPS):
            with pytest.raises(GroupLost):
                await end(engine.stream([1], SHORT))
        status = await engine.status()
        assert not status["healthy"]
        assert all(group["error"] for group in status["groups"])
        await until(engine, lambda groups: any(group["healthy"] for group in groups))
        await end(engine.stream([1], SHORT))
        await until(engine, all_healthy)

    asyncio.run(scenario())


def test_a_stray_exception_in_a_coordinator_is_its_end(engine: Engine) -> None:
    """Not that of the group: its clients hear of it, and another coordinator serves the next."""

    async def scenario(other: Engine) -> None:
        (before,) = (await other.status())["groups"]
        with pytest.raises(GroupLost):
            await end(other.stream([1], StrayParams(max_tokens=10)))
        (after,) = await until(other, lambda groups: all_healthy(groups) and is_new(groups[0]))
        assert after["pid"] != before["pid"]
        await end(other.stream([1], SHORT))

    def is_new(group: dict[str, Any]) -> bool:
        return bool(group["rebuilds"] == 1)

    with new_engine(num_groups=1, transport="calls") as other:  # lanes carry no code
        asyncio.run(scenario(other))


def test_closing_in_the_middle_of_a_rebuild_leaves_nothing(engine: Engine) -> None:
    with new_engine(num_groups=1) as other:
        asyncio.run(kill(other, 0))
        asyncio.run(until(other, lambda groups: not all_healthy(groups)))


def test_groups_without_devices_are_refused_and_leave_nothing(engine: Engine) -> None:
    # One of them would fit.
    target = {"model": "simulated", "simulation": {"tpot_ms": 5}, "num_cpus": 10}
    with pytest.raises(ConfigError, match="no room for 2 x"):
        new_engine(target=target, placement_timeout_s=1)


@pytest.fixture
def keeper(engine: Engine) -> Iterator[GroupSupervisor]:
    """One more group."""
    with closing(GroupSupervisor(engine.config.model_copy(update={"num_groups": 1}))) as keeper:
        yield keeper


def follow(engine: Engine, keeper: GroupSupervisor) -> Engine:
    """An engine that uses the groups of a keeper."""
    groups = Groups(keeper.roster)
    keeper.subscribe(groups.update)
    return Engine(engine.config, groups)


def test_building_is_tried_again_until_it_succeeds(engine: Engine, keeper: GroupSupervisor) -> None:
    follower = follow(engine, keeper)

    def kill_the_next_too(groups: Statuses) -> bool:
        keeper._groups[0].kill()
        return "did not start" in groups[0].get("error", "")

    async def scenario() -> None:
        await until(follower, kill_the_next_too)
        await until(follower, all_healthy)

    asyncio.run(scenario())
    assert follower.generate([1], SHORT).tokens == engine.generate([1], SHORT).tokens


def test_a_coordinator_that_hangs_is_replaced(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsi_ray.runtime.supervisor.group_supervisor.PING_S", 0.1)
    monkeypatch.setattr("dsi_ray.runtime.supervisor.group_supervisor.HANG_S", 1.0)

    async def scenario(other: Engine) -> None:
        stream = await begin(other, 1)
        (group,) = (await other.status())["groups"]
        os.kill(group["pid"], signal.SIGSTOP)
        with pytest.raises(GroupLost):
            await end(stream)
        await until(other, all_healthy)

    with new_engine(num_groups=1) as other:
        asyncio.run(scenario(other))


class Client:
    """A process that sends requests to groups that another hosts."""

    def __init__(self, config: EngineConfig, roster: GroupDirectory) -> None:
        self._stream = Engine(config, Groups(roster)).stream([1], ENDLESS)

    async def begin(self) -> int:
        """Its process, once it has the first token."""
        await anext(self._stream)
        return os.getpid()


def test_requests_of_a_dead_client_end_and_their_group_lives(
    engine: Engine, keeper: GroupSupervisor
) -> None:
    follower = follow(engine, keeper)
    client = ray.remote(Client).options(num_cpus=0).remote(engine.config, keeper.roster)
    pid = ray.get(client.begin.remote())
    before = asyncio.run(until(follower, lambda groups: requests(groups) == [1]))
    os.kill(pid, signal.SIGKILL)
    after = asyncio.run(until(follower, lambda groups: requests(groups) == [0]))
    assert after[0]["pid"] == before[0]["pid"]
