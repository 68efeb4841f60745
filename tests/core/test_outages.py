"""Servers that hang or are gone for good: what that costs, in virtual time."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.core.commit import StopCriteria
from tests.core.crowd import Arrival, Crowd, CrowdDriver, Outage
from tests.core.strategies import SEEDS, guessers, languages

FOREVER = 5_000
"""Longer than any run here."""

FORWARD = 10
PATIENCE = 350
"""Within this a hang is noticed: several times the whole prompt and text, and a look or two."""


@st.composite
def steady_crowds(draw: st.DrawFn, algorithm: str = "dsi") -> Crowd:
    """Requests that come together, on servers as fast as expected; nothing happens to them yet."""
    target = draw(languages())
    prompts = draw(st.lists(SEEDS, min_size=1, max_size=4))
    tokens = draw(st.integers(1, 40))
    return Crowd(
        target=target,
        drafter=draw(guessers(target)),
        servers=draw(st.integers(2, 4)),
        arrivals=tuple(
            Arrival(0, (seed % target.vocabulary,), StopCriteria(tokens), algorithm, 4)
            for seed in prompts
        ),
        outages=(),
        target_latencies=(FORWARD,),
        drafter_latencies=(2,),
        messages=(draw(st.integers(0, 1)),),
        chunk=1000,
    )


def last(driver: CrowdDriver) -> float:
    """When the last token of all was committed."""
    return max(served.last for served in driver().values())


@given(steady_crowds())
def test_nobody_is_suspected_where_nothing_hangs(crowd: Crowd) -> None:
    driver = crowd.driver()
    driver()
    assert driver.suspected == 0


@given(steady_crowds(), st.integers(0, 4), st.integers(0, 300))
def test_a_hang_is_noticed_and_its_work_done_elsewhere(
    crowd: Crowd, victim: int, begin: int
) -> None:
    plain = replace(crowd, arrivals=tuple(replace(a, algorithm="non-si") for a in crowd.arrivals))
    undisturbed = last(plain.driver())
    hanging = replace(crowd, outages=(Outage(victim, begin, FOREVER, hangs=True),)).driver()
    assert last(hanging) <= undisturbed + PATIENCE
    assert all(served.tokens == crowd.expected(name) for name, served in hanging.served.items())


@given(steady_crowds("si"), st.integers(0, 100))
def test_si_goes_on_alone_where_its_drafter_hangs(crowd: Crowd, begin: int) -> None:
    drafter = Outage(crowd.servers, begin, FOREVER, hangs=True)
    hanging = replace(crowd, outages=(drafter,)).driver()
    tokens = crowd.arrivals[0].criteria.max_tokens
    assert last(hanging) <= begin + PATIENCE + tokens * (FORWARD + 2)


@given(steady_crowds(), st.integers(0, 300))
def test_a_drafter_that_never_comes_back_costs_nothing_against_plain_decoding(
    crowd: Crowd, begin: int
) -> None:
    plain = replace(crowd, arrivals=tuple(replace(a, algorithm="non-si") for a in crowd.arrivals))
    alone = replace(crowd, outages=(Outage(crowd.servers, begin, FOREVER),))
    assert 0.95 * last(alone.driver()) <= last(plain.driver())
