"""Equation 1 and the plans that follow from what is measured."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.core.planning.performance_model import (
    PerformanceModel,
    affordable_sp_degree,
    largest_useful_sp_degree,
    needed_sp_degree,
    smallest_lookahead,
)

LATENCIES = st.integers(1, 1000)
SP_DEGREES = st.integers(1, 16)
RATES = st.floats(0, 1)


@pytest.mark.parametrize(
    ("target", "drafter", "servers", "lookahead"),
    [
        (30, 3, 7, 2),  # a node of eight devices, a drafter at a tenth of the target
        (100, 10, 1, 10),  # SI's case: the draft must last a whole forward
        (100, 10, 10, 1),
        (100, 5, 4, 5),  # section 3.1: a drafter at 5 %, lookahead 5, SP 4
        (1, 1, 1, 1),
        (1, 2, 1, 1),  # a drafter slower than the target
        (0.3, 0.1, 3, 1),  # no rounding error
    ],
)
def test_smallest_lookahead(target: float, drafter: float, servers: int, lookahead: int) -> None:
    assert smallest_lookahead(target, drafter, servers) == lookahead


def test_seven_devices_of_which_a_target_server_takes_two() -> None:
    """The example of section 4."""
    servers = affordable_sp_degree(devices=7, model_parallel=2)
    assert servers == 3
    assert smallest_lookahead(1, 0.05, servers) == 7


def test_too_few_devices() -> None:
    assert affordable_sp_degree(2) == 1
    with pytest.raises(ValueError, match="5 devices"):
        affordable_sp_degree(4, model_parallel=4)


def test_largest_useful_sp_degree() -> None:
    assert largest_useful_sp_degree(1, 0.05) == 20
    assert largest_useful_sp_degree(1, 0.3) == 4
    assert largest_useful_sp_degree(1, 2) == 1


@given(LATENCIES, LATENCIES, SP_DEGREES)
def test_equation_1_holds_and_for_no_smaller_lookahead(
    target: int, drafter: int, servers: int
) -> None:
    lookahead = smallest_lookahead(target, drafter, servers)
    assert math.ceil(target / (lookahead * drafter)) <= servers
    assert lookahead == 1 or math.ceil(target / ((lookahead - 1) * drafter)) > servers


@given(LATENCIES, LATENCIES, SP_DEGREES)
def test_the_two_directions_of_equation_1_agree(target: int, drafter: int, servers: int) -> None:
    lookahead = smallest_lookahead(target, drafter, servers)
    needed = needed_sp_degree(target, drafter, lookahead)
    assert needed <= servers
    assert smallest_lookahead(target, drafter, needed) == lookahead


@given(LATENCIES, LATENCIES, SP_DEGREES, st.integers(0, 100))
def test_equation_1_is_monotonic(target: int, drafter: int, servers: int, more: int) -> None:
    lookahead = smallest_lookahead(target, drafter, servers)
    assert smallest_lookahead(target, drafter, servers + more) <= lookahead
    assert smallest_lookahead(target, drafter + more, servers) <= lookahead
    assert smallest_lookahead(target + more, drafter, servers) >= lookahead


@given(st.floats(1e-4, 10), st.floats(1e-9, 10), st.floats(0, 1), RATES, SP_DEGREES)
def test_every_pace_gives_a_plan(
    target: float, drafter: float, message: float, acceptance: float, servers: int
) -> None:
    pace = PerformanceModel(target, drafter, message, acceptance, acceptance)
    plan = pace.plan(servers)
    assert 1 <= plan.lookahead <= min(16, plan.run_ahead)
    assert servers == 1 or not plan.first_block


@given(st.floats(1e-3, 1), st.floats(1e-4, 1), RATES, st.integers(2, 16))
def test_the_planned_lookahead_is_at_most_that_of_equation_1(
    target: float, drafter: float, acceptance: float, servers: int
) -> None:
    lookahead = PerformanceModel(target, drafter, acceptance=acceptance).lookahead(servers)
    assert lookahead <= smallest_lookahead(target, drafter, servers)


def test_a_given_lookahead_stands() -> None:
    assert PerformanceModel(30, 3).plan(7, lookahead=5).lookahead == 5


def test_blocks_shrink_where_servers_would_idle() -> None:
    pace = PerformanceModel(30, 1)
    assert smallest_lookahead(30, 1, 4) == 8
    assert pace.lookahead(4, acceptance=0.95) > pace.lookahead(4, acceptance=0.5)


def test_messages_count_as_part_of_the_target() -> None:
    useless = {"acceptance": 0.0}
    assert PerformanceModel(30, 3, **useless).lookahead(5) == 2
    assert PerformanceModel(30, 3, message=6, **useless).lookahead(5) > 2


def test_distance_takes_no_processor_from_the_models() -> None:
    near, far = (
        PerformanceModel(30, 1, message=0.3),
        PerformanceModel(30, 1, message=10, processor=0.3),
    )
    assert far.plan(7, lookahead=5).run_ahead == near.plan(7, lookahead=5).run_ahead
    assert far.plan(7).far and not near.plan(7).far


def test_depth_ends_where_drafts_are_unlikely() -> None:
    depths = [
        PerformanceModel(30, 1, acceptance=rate).plan(7).run_ahead for rate in (0.1, 0.5, 0.8, 0.95)
    ]
    assert depths == sorted(depths)
    assert 0.5 ** (depths[1] - 1) <= 0.01 < 0.5 ** (depths[1] - 3)


def test_with_one_server_the_last_report_of_a_forward_comes_before_its_end() -> None:
    for message in (0.0, 0.5, 2.0):
        lookahead = PerformanceModel(30, 3, message).lookahead(1)
        reports = 30 // (3 * lookahead)
        assert reports * lookahead * 3 + 2 * message <= 30
    assert PerformanceModel(30, 3, 2.0).lookahead(1) > PerformanceModel(30, 3, 0.0).lookahead(1)


def test_the_first_block_overtakes_only_where_that_is_proven_to_pay() -> None:
    assert PerformanceModel(30, 1, acceptance=0.7, proven=0.7).plan(1).first_block > 0
    assert PerformanceModel(30, 1, acceptance=0.7).plan(1).first_block == 0
    assert PerformanceModel(30, 15, acceptance=0.7, proven=0.7).plan(1).first_block == 0
    assert PerformanceModel(30, 1, proven=0.7).plan(1, lookahead=4).first_block == 0


def test_pace_follows_measurements() -> None:
    pace = PerformanceModel(10, 1)
    for _ in range(500):
        pace.observe_target(30)
        pace.observe_drafter(3)
        pace.observe_request(accepted=5, rejected=5)
    assert pace.target == pytest.approx(30, rel=1e-3)
    assert pace.drafter == pytest.approx(3, rel=1e-3)
    assert pace.acceptance == pytest.approx(0.5, rel=1e-3)
    assert pace.proven == pytest.approx(0.5, rel=1e-3)
    assert pace.spread < 0.1


def test_a_request_without_drafts_says_nothing_of_acceptance() -> None:
    pace = PerformanceModel(10, 1, acceptance=0.6)
    pace.observe_request(0, 0)
    assert pace.acceptance == 0.6


def test_a_request_has_its_own_acceptance_rate_in_time() -> None:
    pace = PerformanceModel(30, 1, acceptance=0.95)
    assert pace.plan(4).lookahead > pace.plan(4, accepted=30, rejected=60).lookahead


def test_si_lookahead_grows_with_acceptance_and_shrinks_with_the_drafters_cost() -> None:
    assert PerformanceModel(10, 1).si_lookahead(0.9) > PerformanceModel(10, 1).si_lookahead(0.5)
    assert PerformanceModel(10, 1).si_lookahead(0.8) > PerformanceModel(10, 5).si_lookahead(0.8)
    assert PerformanceModel(10, 20).si_lookahead(0.1) == 1
