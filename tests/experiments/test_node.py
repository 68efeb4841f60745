"""A node under load in virtual time: the promises about many requests."""

import statistics

import pytest

from dsi_ray.config import Simulation
from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import NonSI
from dsi_ray.core.group.request_state import Job
from dsi_ray.core.messages import Role, ServerId
from dsi_ray.core.planning.performance_model import PerformanceModel
from dsi_ray.experiments.virtual.batched import serve_batched
from dsi_ray.experiments.virtual.node import (
    NodeGroup,
    NodeServer,
    SimulatedNode,
    Visit,
    forward_seconds,
)
from dsi_ray.experiments.virtual.throughput import measure
from dsi_ray.experiments.virtual.virtual_group import VirtualGroup

TARGET = Simulation(tpot_ms=30, per_token_ms=30 / 64, knee_tokens=64)
DRAFTER = Simulation(tpot_ms=3, per_token_ms=3 / 64, knee_tokens=64, acceptance_rate=0.9)
NODE = SimulatedNode(TARGET, DRAFTER)


def test_dsi_is_fastest_from_idle_to_saturation() -> None:
    for row in (row.as_row() for row in measure(NODE, 40, loads=(0.1, 4.0))):
        assert row["DSI/non-SI latency"] < 1, row
        assert row["DSI/SI latency"] < 1, row
        assert row["DSI/best throughput"] > 0.95, row


def test_speculation_stops_before_it_costs_anything() -> None:
    """Without a token to spare in a forward and with drafts that are wrong, nothing is drafted."""
    busy = SimulatedNode(
        Simulation(tpot_ms=30, per_token_ms=30),
        Simulation(tpot_ms=3, per_token_ms=3, acceptance_rate=0.1),
        devices=2,
    )
    group = NodeGroup(busy)
    for trace in range(8):
        group.visit(Visit(trace, 0.0, 1, 50))
    ends = group()
    drafted = sum(span.server.role is Role.DRAFTER for span in group.run.spans)
    # The first drafts were made before anybody knew how bad they are.
    assert drafted < 8 * 50 / 4
    plain = serve_batched(SimulatedNode(busy.target, busy.drafter, devices=1), VISITS, drafts=False)
    assert max(served.last for served in ends.values()) < 1.1 * max(plain.values())


VISITS = [Visit(trace, 0.0, 1, 50) for trace in range(8)]


@pytest.mark.parametrize("chunk", [32, 256])
def test_a_long_prompt_costs_the_others_a_chunk_at_most(chunk: int) -> None:
    def gaps(prompts: list[int]) -> list[float]:
        """Times between tokens of the requests with the short prompts."""
        driver = VirtualGroup(
            {ServerId(Role.TARGET, 0): NodeServer(TARGET, Role.TARGET)},
            PerformanceModel(0.03, 0.03),
            chunk=chunk,
        )
        for trace, length in enumerate(prompts):
            prompt = (trace, *range(length - 1))
            job = Job(str(trace), prompt, StopCriteria(60), 1, lambda request, _: NonSI(request))
            driver.arrive(0.5 * (length > 8), job)
        driver()
        short = [span for span in driver.run.spans if len(span.step.tokens) <= 68]
        ends = {id(span): span.end for span in short}
        return sorted(ends[id(b)] - ends[id(a)] for a, b in _pairs(short))

    alone, beside = gaps([8] * 8), gaps([8] * 8 + [512])
    worst = statistics.quantiles(beside, n=100)[-1] - statistics.quantiles(alone, n=100)[-1]
    assert worst <= forward_seconds(TARGET, chunk + 9) - forward_seconds(TARGET, 9) + 1e-9


def _pairs(spans: list) -> list[tuple]:
    """Consecutive forwards of the same request."""
    by_request: dict[int, list] = {}
    for span in spans:
        by_request.setdefault(span.step.tokens[0], []).append(span)
    return [pair for own in by_request.values() for pair in zip(own, own[1:], strict=False)]


def test_plain_batches_and_a_group_without_drafts_agree() -> None:
    """The baseline is no straw man: it is what the group itself does with plain decoding."""
    visits = [Visit(trace, 0.0, 1, 20 + trace) for trace in range(6)]
    baseline = serve_batched(SimulatedNode(TARGET, DRAFTER, devices=2), visits, drafts=False)
    servers = [ServerId(Role.TARGET, i) for i in range(2)]
    driver = VirtualGroup(
        {server: NodeServer(TARGET, Role.TARGET) for server in servers},
        PerformanceModel(0.03, 0.03),
    )
    for visit in visits:
        job = Job(
            str(visit.trace),
            (visit.trace,),
            StopCriteria(visit.tokens),
            1,
            lambda request, _: NonSI(request),
        )
        driver.arrive(visit.time, job)
    served = driver()
    for visit in visits:
        assert served[str(visit.trace)].last == pytest.approx(baseline[visit.trace])
