"""Equation 1 and the plans that follow from measured latencies."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.core.planner import Pace, smallest_lookahead


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


@given(st.integers(1, 1000), st.integers(1, 1000), st.integers(1, 16))
def test_equation_1_holds_and_for_no_smaller_lookahead(
    target: int, drafter: int, servers: int
) -> None:
    lookahead = smallest_lookahead(target, drafter, servers)
    assert math.ceil(target / (lookahead * drafter)) <= servers
    assert lookahead == 1 or math.ceil(target / ((lookahead - 1) * drafter)) > servers


@given(st.floats(1e-4, 10), st.floats(1e-4, 10), st.floats(0, 1), st.integers(1, 16))
def test_every_pace_gives_a_plan(
    target: float, drafter: float, message: float, servers: int
) -> None:
    plan = Pace(target, drafter, message).plan(servers)
    assert 1 <= plan.lookahead <= plan.run_ahead


def test_a_given_lookahead_stands() -> None:
    assert Pace(30, 3).plan(7, lookahead=5).lookahead == 5


def test_messages_count_as_part_of_the_target() -> None:
    assert Pace(30, 3).lookahead(5) == 2
    assert Pace(30, 3, message=6).lookahead(5) == 3


def test_pace_follows_measurements() -> None:
    pace = Pace(10, 1)
    for _ in range(100):
        pace.observe_target(30)
        pace.observe_drafter(3)
    assert pace.target == pytest.approx(30, rel=1e-3)
    assert pace.drafter == pytest.approx(3, rel=1e-3)


def test_si_lookahead_grows_with_acceptance_and_shrinks_with_the_drafters_cost() -> None:
    assert Pace(10, 1).si_lookahead(0.9) > Pace(10, 1).si_lookahead(0.5)
    assert Pace(10, 1).si_lookahead(0.8) > Pace(10, 5).si_lookahead(0.8)
    assert Pace(10, 20).si_lookahead(0.1) == 1
