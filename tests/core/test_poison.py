"""Requests that kill, or hang, every server that computes them: they fail, and fail alone."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsi_ray.core.blame import CONVICTED, MOST_DEATHS
from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.messages import Role
from tests.core.crowd import CHECK, Arrival, Crowd, CrowdDriver, Outage, Poison, crowds
from tests.core.language import Guesser, Language


@st.composite
def poisoned(draw: st.DrawFn, role: Role) -> Crowd:
    """Some requests are poison; besides, one server may die or hang by itself."""
    crowd = draw(crowds())
    requests = st.integers(0, len(crowd.arrivals) - 1)
    # A server takes a while to start.
    starts = st.integers(CHECK, 50)
    poison = st.builds(
        Poison, requests, st.integers(0, 30), st.just(role), starts, st.booleans()
    )
    poisons = draw(st.lists(poison, min_size=1, max_size=2, unique_by=lambda p: p.request))
    return replace(crowd, poisons=tuple(poisons), outages=crowd.outages[:1])


def innocent(crowd: Crowd, driver: CrowdDriver) -> set[str]:
    """The requests that are no poison and whose clients stay."""
    poisons = {str(poison.request) for poison in crowd.poisons}
    return driver.served.keys() - poisons - driver.left


@settings(max_examples=400)
@given(poisoned(Role.TARGET))
def test_poison_fails_alone(crowd: Crowd) -> None:
    driver = crowd.driver()
    served = driver()
    for request in innocent(crowd, driver):
        assert served[request].error is None
        assert served[request].tokens == crowd.expected(request)
    for poison in crowd.poisons:
        request = str(poison.request)
        expected, got = crowd.expected(request), served[request]
        assert got.tokens == expected[: len(got.tokens)]
        assert got.error == CONVICTED or got.tokens == expected or request in driver.left


@settings(max_examples=200)
@given(poisoned(Role.TARGET))
def test_few_servers_die_of_it_and_nothing_is_left_behind(crowd: Crowd) -> None:
    driver = crowd.driver()
    driver()
    assert len(driver.poisoned) <= MOST_DEATHS * crowd.servers * len(crowd.poisons)
    assert not driver.group.members
    assert not driver.group.tasks
    assert not driver.group.pool.isolated
    assert not driver.busy


@settings(max_examples=200)
@given(poisoned(Role.DRAFTER))
def test_who_kills_drafters_goes_on_without(crowd: Crowd) -> None:
    driver = crowd.driver()
    for request, served in driver().items():
        assert served.error is None
        assert served.tokens == crowd.expected(request) or request in driver.left
    assert len(driver.poisoned) <= MOST_DEATHS * len(crowd.poisons)


