"""Virtual time is the real thing without the waiting: the same classes, texts and latencies."""

from dataclasses import replace

import pytest

import dsi_ray.core.decoders
import dsi_ray.core.group.group
import dsi_ray.core.server.scheduler
import dsi_ray.experiments.virtual.pair
import dsi_ray.experiments.virtual.virtual_group
import dsi_ray.experiments.virtual.virtual_time
import dsi_ray.runtime.coordinator.coordinator
import dsi_ray.runtime.coordinator.decode_jobs
import dsi_ray.runtime.server.forward_loop
from dsi_ray.config import Simulation
from dsi_ray.core.messages import Role
from dsi_ray.experiments.virtual.pair import Pair, prompt
from dsi_ray.models.base import Extension, Sampling, extend_one
from dsi_ray.models.simulated import SimulatedModel
from dsi_ray.params import SamplingParams


@pytest.mark.parametrize("name", ["DSI", "SI", "NonSI"])
def test_the_runtime_and_virtual_time_drive_the_same_decoders(name: str) -> None:
    decoder = getattr(dsi_ray.core.decoders, name)
    assert getattr(dsi_ray.runtime.coordinator.decode_jobs, name) is decoder
    assert getattr(dsi_ray.experiments.virtual.pair, name) is decoder


def test_and_the_same_batches_and_groups() -> None:
    batch, group = dsi_ray.core.server.scheduler.Scheduler, dsi_ray.core.group.group.Group
    assert dsi_ray.runtime.server.forward_loop.Scheduler is batch
    assert dsi_ray.experiments.virtual.virtual_time.Scheduler is batch
    assert dsi_ray.runtime.coordinator.coordinator.Group is group
    assert dsi_ray.experiments.virtual.virtual_group.Group is group


def test_a_text_is_that_of_the_simulated_model() -> None:
    simulation = Simulation(tpot_ms=0.01, seed=3)
    pair = Pair(simulation, simulation.model_copy(update={"acceptance_rate": 0.5}), tokens=8)
    model = SimulatedModel(simulation, Role.TARGET)
    path = list(prompt(5))
    greedy = Sampling(SamplingParams(), len(path))
    for _ in range(pair.tokens):
        path += extend_one(model, Extension("", tuple(path), len(path), greedy)).tokens
    expected = path[len(prompt(5)) :]
    plan = pair.pace.plan(2)
    assert pair.non_si(5).tokens == pair.si(3, 5).tokens == pair.dsi(2, plan, 5).tokens == expected


def test_the_first_forward_of_every_server_takes_longer() -> None:
    pair = Pair.of(10, 1, 1.0, tokens=5)
    assert pair.non_si().seconds == pytest.approx(0.050)
    pair = replace(pair, target=pair.target.model_copy(update={"ttft_ms": 40}))
    assert pair.non_si().seconds == pytest.approx(0.080)
    # The drafter needs no more than its own first forward, but every target server its own.
    assert pair.dsi(3, pair.pace.plan(3)).seconds >= 0.040


def test_traces_differ_and_repeat() -> None:
    pair = Pair.of(10, 3, 0.6)
    assert pair.si(3, 1).seconds == pair.si(3, 1).seconds
    assert len({pair.si(3, trace).seconds for trace in range(8)}) > 1
    assert 0.5 < pair.accepted_share(20) < 0.7
