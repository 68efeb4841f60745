"""Nodes of a Ray cluster die under load, in a process of its own: one has one cluster."""

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

import pytest

from dsi_ray.config import EngineConfig
from dsi_ray.models.simulated import target_token
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine
from dsi_ray.runtime.errors import GroupLost
from dsi_ray.runtime.ray.many_nodes import many_nodes
from loadtest.faults.chaos import Faults, Load, Outcome, prompt, run, strike
from loadtest.faults.in_process import EngineService, node_of, nodes_elsewhere

# No heartbeat for so long, and Ray takes a node for dead: by default 15 s.
QUICK = {"RAY_health_check_period_ms": "500", "RAY_health_check_failure_threshold": "3"}
DEADLINE_S = 90

# A target server a node; the drafter that computes is not where the coordinator is.
FIRST = {"num_cpus": 2, "labels": {"node": "first"}}
SECOND = {"num_cpus": 2, "labels": {"node": "second"}}
LARGE = {"num_cpus": 3, "labels": {"node": "large"}}
CONFIG = EngineConfig.model_validate(
    {
        "target": {"model": "simulated", "num_cpus": 1, "simulation": {"tpot_ms": 5}},
        "drafters": [
            {"model": "lookup", "labels": {"node": "!second"}},
            {
                "model": "simulated",
                "labels": {"node": "!first"},
                "simulation": {"tpot_ms": 1, "acceptance_rate": 0.8},
            },
        ],
        "sp_degree": 2,
        "placement_strategy": "SPREAD",
    }
)
LOAD = Load(requests=200, tokens=16, concurrency=8)
FEW = Load(requests=8, tokens=16, concurrency=8)


@dataclass
class Story:
    """What happened."""

    victims: list[str] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    statuses: dict[str, dict[str, Any]] = field(default_factory=dict)
    retriable: list[GroupLost] = field(default_factory=list)


def status_of(engine: Engine) -> dict[str, Any]:
    """What the only group does."""
    group: dict[str, Any]
    (group,) = asyncio.run(engine.status())["groups"]
    return group


def wait_until(engine: Engine, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Polls the group's status; fails if ``holds`` does not come true."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds(status := status_of(engine)):
        assert time.monotonic() < deadline, status
        time.sleep(0.1)
    return status


def tell() -> Story:
    """Two nodes; one dies, a larger one comes, the coordinator's dies."""
    os.environ.update(QUICK)
    story = Story()
    with many_nodes(FIRST, SECOND) as cluster, Engine(CONFIG) as engine:
        before = status_of(engine)
        (away,) = nodes_elsewhere([before])
        story.victims = [s["server"] for s in before["servers"] if s["pid"] in away.pids]
        service = EngineService(engine)
        once = Faults({"node"}, every_s=0.5)
        story.outcomes["under load"] = asyncio.run(run(service, LOAD, once))
        story.statuses["no room"] = status_of(engine)
        cluster.add_node(**LARGE)
        story.statuses["room"] = wait_until(engine, lambda status: not status["lost"])
        story.outcomes["afterwards"] = asyncio.run(run(service, FEW))
        strike(node_of(story.statuses["room"]["pid"]))
        try:
            engine.generate(prompt(0), SamplingParams(max_tokens=10_000, ignore_eos=True))
        except GroupLost as error:
            story.retriable.append(error)
        story.statuses["rebuilt"] = wait_until(engine, lambda status: status["healthy"])
        story.outcomes["rebuilt"] = asyncio.run(run(service, FEW))
    return story


@pytest.fixture(scope="module")
def story() -> Story:
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(tell).result()


pytestmark = pytest.mark.usefixtures("starts_ray")


def expected(load: Load) -> tuple[tuple[int, ...], ...]:
    """What the target alone says to each request."""
    assert CONFIG.target.simulation is not None
    begin = len(prompt(0))
    return tuple(
        tuple(
            target_token(CONFIG.target.simulation, position, prompt(number)[0])
            for position in range(begin, begin + load.tokens)
        )
        for number in range(load.requests)
    )


def test_the_node_had_a_target_server_and_the_drafter(story: Story) -> None:
    assert [victim.partition("-")[0] for victim in story.victims] == ["target", "drafter"]
    assert story.outcomes["under load"].strikes == {"node": 1}


def test_no_request_notices_that_a_node_dies(story: Story) -> None:
    assert story.outcomes["under load"].texts == expected(LOAD)


def test_a_group_goes_on_with_what_is_left_until_there_is_room(story: Story) -> None:
    degraded, whole = story.statuses["no room"], story.statuses["room"]
    assert degraded["healthy"]
    assert set(degraded["lost"]) == set(story.victims)
    assert degraded["pid"] == whole["pid"]
    assert len(whole["servers"]) == len(degraded["servers"]) + len(story.victims)
    assert story.outcomes["afterwards"].texts == expected(FEW)


def test_a_group_that_dies_with_its_node_is_built_again_elsewhere(story: Story) -> None:
    assert len(story.retriable) == 1
    assert story.statuses["rebuilt"]["rebuilds"] == 1
    assert story.outcomes["rebuilt"].texts == expected(FEW)
