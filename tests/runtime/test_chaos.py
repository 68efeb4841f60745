"""Chaos on real Ray: servers die and hang under load, and no client notices."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from dsi_ray.config import EngineConfig
from dsi_ray.runtime.client.engine import Engine
from loadtest.faults import chaos
from loadtest.faults.in_process import EngineService

from .test_requests import is_idle, placement_groups, process_of, status_of, wait_until

LOAD = chaos.Load(requests=24, tokens=100, concurrency=8)


@pytest.fixture(scope="module")
def engine(ray_cluster: None) -> Iterator[Engine]:
    config = EngineConfig.model_validate(
        {
            "target": "simulated:tpot_ms=5",
            "drafters": ["simulated:tpot_ms=1,acceptance_rate=0.8"],
            "sp_degree": 3,
        }
    )
    before = placement_groups()
    with Engine(config) as engine:
        yield engine
    assert placement_groups() == before


@pytest.fixture(scope="module")
def undisturbed(engine: Engine) -> chaos.Outcome:
    return asyncio.run(chaos.run(EngineService(engine), LOAD))


def test_nobody_notices_that_servers_die(engine: Engine, undisturbed: chaos.Outcome) -> None:
    faults = chaos.Faults({"drafter", "target"}, every_s=1)
    disturbed = chaos.run(EngineService(engine), LOAD, faults)
    outcome = asyncio.run(disturbed)
    assert outcome.texts == undisturbed.texts
    strikes = sum(outcome.strikes.values())
    assert strikes
    wait_until(engine, lambda status: status["restarts"] == strikes)
    status = wait_until(engine, is_idle)
    assert len(status["servers"]) == 4


@pytest.mark.parametrize("victim", ["target-1", "drafter-0"])
def test_texts_end_while_a_server_hangs(
    engine: Engine, undisturbed: chaos.Outcome, victim: str
) -> None:
    """It is stopped under load, and goes on only when all texts are there."""
    wait_until(engine, lambda status: len(status["servers"]) == 4)
    pid = process_of(engine, victim)
    restarts = status_of(engine)["restarts"]
    stop = iter([signal.SIGSTOP])

    def stop_once() -> None:
        for number in stop:
            os.kill(pid, number)

    try:
        outcome = asyncio.run(chaos.run(EngineService(engine), LOAD, progress=stop_once))
        assert outcome.texts == undisturbed.texts
        status = wait_until(engine, lambda status: victim in status["suspected"])
        assert status["healthy"]
    finally:
        os.kill(pid, signal.SIGCONT)
    status = wait_until(engine, lambda status: is_idle(status) and not status["suspected"])
    assert process_of(engine, victim) == pid
    assert status["restarts"] == restarts
