"""Arrivals: in order, as many as asked for, and at the rate asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.load import Constant, Gamma, OpenLoad, Poisson, Ramp
from loadtest.schedule import arrivals

COUNT = 4000
RATES = st.floats(0.1, 100)
LOADS = st.one_of(
    st.builds(Constant, kind=st.just("constant"), rate=RATES, requests=st.just(50)),
    st.builds(Poisson, kind=st.just("poisson"), rate=RATES, duration_s=st.floats(0.1, 2)),
    st.builds(
        Gamma,
        kind=st.just("gamma"),
        rate=RATES,
        burstiness=st.floats(0.05, 20),
        requests=st.integers(1, 100),
        duration_s=st.floats(0.1, 2),
    ),
    st.builds(Ramp, kind=st.just("ramp"), rate=RATES, to_rate=RATES, duration_s=st.floats(0.1, 2)),
)


def times(load: OpenLoad, seed: int = 0) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.array(arrivals(load, np.random.default_rng(seed)))


@given(LOADS, st.integers(0, 2**32))
def test_arrivals_are_in_order_within_the_load_and_follow_the_seed(
    load: OpenLoad, seed: int
) -> None:
    due = times(load, seed)
    assert np.all(np.diff(due) >= 0)
    assert np.all(due >= 0)
    if load.duration_s is not None:
        assert np.all(due < load.duration_s)
    if load.requests is not None:
        assert len(due) <= load.requests
        assert load.duration_s is not None or len(due) == load.requests
    assert due.tolist() == times(load, seed).tolist()


def test_constant_arrivals_are_even() -> None:
    assert times(Constant(kind="constant", rate=4, duration_s=1)).tolist() == [0, 0.25, 0.5, 0.75]


@given(st.floats(0.25, 4), RATES)
def test_gaps_have_the_mean_and_the_spread_of_their_law(burstiness: float, rate: float) -> None:
    load = Gamma(kind="gamma", rate=rate, burstiness=burstiness, requests=COUNT)
    gaps = np.diff(times(load), prepend=0.0) * rate
    variation = burstiness**-0.5
    # Five standard errors of the mean; the sample's deviation is less certain.
    assert gaps.mean() == pytest.approx(1, abs=5 * variation / COUNT**0.5)
    assert gaps.std() == pytest.approx(variation, rel=0.25)


def test_poisson_is_gamma_with_burstiness_one() -> None:
    poisson = Poisson(kind="poisson", rate=3, requests=100)
    gamma = Gamma(kind="gamma", rate=3, burstiness=1, requests=100)
    assert times(poisson).tolist() == times(gamma).tolist()


@pytest.mark.parametrize(("rate", "to_rate"), [(10, 190), (190, 10), (100, 100)])
def test_a_ramp_has_its_rate_at_each_time(rate: float, to_rate: float) -> None:
    """Of 4000 expected arrivals, the number in each quarter is within five deviations."""
    load = Ramp(kind="ramp", rate=rate, to_rate=to_rate, duration_s=40)
    counts, _ = np.histogram(times(load), bins=4, range=(0, 40))
    for quarter, count in enumerate(counts):
        expected = 10 * (rate + (to_rate - rate) * (quarter + 0.5) / 4)
        assert count == pytest.approx(expected, abs=5 * expected**0.5)
