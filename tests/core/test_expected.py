"""The closed forms, where they are known, and how they compare."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.core.planning.expected import Latencies
from dsi_ray.core.planning.performance_model import smallest_lookahead

RATES = st.floats(0, 1)
DRAFTERS = st.floats(0.01, 1)


@given(DRAFTERS, RATES)
def test_enough_servers_give_proposition_1(drafter: float, acceptance: float) -> None:
    """Each accepted draft costs a drafter forward, each rejection a target forward."""
    latencies = Latencies(1, drafter, acceptance)
    expected = acceptance * drafter + (1 - acceptance)
    assert latencies.dsi(1, math.ceil(1 / drafter) + 1) == pytest.approx(expected)


@given(DRAFTERS, RATES, st.integers(1, 20), st.integers(1, 16))
def test_dsi_is_never_slower_than_non_si(
    drafter: float, acceptance: float, lookahead: int, servers: int
) -> None:
    assert Latencies(1, drafter, acceptance).dsi(lookahead, servers) <= 1 + 1e-9


@given(DRAFTERS, RATES, st.integers(2, 16))
def test_more_servers_never_hurt(drafter: float, acceptance: float, servers: int) -> None:
    latencies = Latencies(1, drafter, acceptance)
    lookahead = smallest_lookahead(1, drafter, servers)
    assert latencies.dsi(lookahead, servers + 1) <= latencies.dsi(lookahead, servers) + 1e-9


@given(DRAFTERS, RATES, st.integers(1, 200))
def test_si_needs_acceptance_above_the_drafters_latency(
    drafter: float, acceptance: float, lookahead: int
) -> None:
    """The border of the failure region: with a lookahead of 1 it is where both are equal."""
    if acceptance < drafter:
        assert Latencies(1, drafter, acceptance).si(lookahead) > 1
    if acceptance > drafter:
        assert Latencies(1, drafter, acceptance).si(1) < 1


@given(st.floats(0.01, 0.5), st.floats(0.05, 0.95), st.integers(1, 16))
def test_giving_up_the_plain_step_is_at_least_as_fast_as_si(
    drafter: float, acceptance: float, lookahead: int
) -> None:
    """As long as a block fits into a target forward."""
    latencies = Latencies(1, drafter, acceptance)
    if (lookahead + 1) * drafter <= 1:
        assert latencies.dsi_single(lookahead) <= latencies.si(lookahead) + 1e-9
