"""With one target server: the first block after a rejection in place of the decode step."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.core.decoders import Plan
from dsi_ray.core.planning.expected import Latencies
from dsi_ray.experiments.virtual.pair import Pair
from tests.core.scenario import Scenario
from tests.core.strategies import scenarios

TRACES = 10


def seconds(pair: Pair, plan: Plan) -> float:
    return sum(pair.dsi(1, plan, trace).seconds for trace in range(TRACES))


@given(scenarios(), st.integers(1, 8))
def test_the_text_is_the_targets_own(scenario: Scenario, first_block: int) -> None:
    plan = replace(
        scenario.plan,
        first_block=first_block,
        run_ahead=scenario.plan.run_ahead + first_block,
    )
    run = replace(scenario, plan=plan).driver("dsi")()
    assert run.tokens == scenario.expected[0]


def test_it_pays_where_the_drafter_is_fast() -> None:
    pair = Pair.of(10, 1, 0.5, tokens=100)
    plan = pair.pace.plan(1)
    assert plan.first_block
    assert seconds(pair, plan) < 0.95 * seconds(pair, replace(plan, first_block=0))


def test_so_planned_one_server_is_faster_than_si_with_any_lookahead() -> None:
    for drafter, acceptance in ((1.0, 0.5), (1.0, 0.8), (2.0, 0.5), (5.0, 0.8)):
        pair = Pair.of(10, drafter, acceptance, tokens=100)
        si = min(sum(pair.si(k, trace).seconds for trace in range(TRACES)) for k in range(1, 9))
        assert seconds(pair, pair.pace.plan(1)) < si


def test_a_useless_drafter_never_overtakes() -> None:
    pair = Pair.of(10, 0.5, 0.0)
    pace = replace(pair.pace, acceptance=0.8, proven=0.0)
    assert pair.adaptive(1, 0, pace).seconds == pair.non_si().seconds


@pytest.mark.parametrize("acceptance", [0.2, 0.5, 0.8, 0.95])
def test_one_server_and_a_fast_drafter_are_in_the_mean_as_fast_as_si(acceptance: float) -> None:
    """Also where blocks that a rejection contradicted are still queued, and at both ends."""
    pair = replace(Pair.of(30, 1.5, acceptance), message=0.0005)
    pace = replace(pair.pace)
    lookahead = min(range(1, 11), key=Latencies(1, 0.05, acceptance).si)
    dsi = sum(pair.adaptive(1, trace, pace).seconds for trace in range(30))
    si = sum(pair.si(lookahead, trace).seconds for trace in range(30))
    assert dsi <= si * 1.005
