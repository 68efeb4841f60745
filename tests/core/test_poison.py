"""Requests that kill, or hang, every server that computes them: they fail, and fail alone."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.group.poison import CONVICTED, MOST_DEATHS
from dsi_ray.core.messages import Role
from tests.core.crowd import CHECK, Arrival, Crowd, CrowdDriver, Outage, Poison, crowds
from tests.core.language import Guesser, Language


@st.composite
def poisoned(draw: st.DrawFn, role: Role, most_depth: int = 30) -> Crowd:
    """Some requests are poison; besides, one server may die or hang by itself."""
    crowd = draw(crowds())
    poison = st.builds(
        Poison,
        request=st.integers(0, len(crowd.arrivals) - 1),
        depth=st.integers(0, most_depth),
        role=st.just(role),
        # A server takes a while to start.
        length=st.integers(CHECK, 50),
        hangs=st.booleans(),
    )
    poisons = draw(st.lists(poison, min_size=1, max_size=2, unique_by=lambda p: p.request))
    return replace(crowd, poisons=tuple(poisons), outages=crowd.outages[:1])


def innocent(crowd: Crowd, driver: CrowdDriver) -> set[str]:
    """The requests that are no poison and whose clients stay."""
    poisons = {str(poison.request) for poison in crowd.poisons}
    return driver.served.keys() - poisons - driver.left


@settings(max_examples=150)
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


@given(poisoned(Role.TARGET, most_depth=0))
def test_few_servers_die_of_it_and_nothing_is_left_behind(crowd: Crowd) -> None:
    driver = crowd.driver()
    driver()
    assert len(driver.poisoned) <= MOST_DEATHS * crowd.servers * len(crowd.poisons)
    assert not driver.group.members
    assert not driver.group.tasks
    assert not driver.group.pool.isolates
    assert not driver.busy


@given(poisoned(Role.DRAFTER))
def test_who_kills_drafters_goes_on_without(crowd: Crowd) -> None:
    driver = crowd.driver()
    for request, served in driver().items():
        assert served.error is None
        assert served.tokens == crowd.expected(request) or request in driver.left
    assert len(driver.poisoned) <= MOST_DEATHS * len(crowd.poisons)


def crowd_of(servers: int, *arrivals: Arrival, poisons: tuple[Poison, ...] = ()) -> Crowd:
    """Requests on servers that are as fast as expected."""
    target = Language(seed=0, vocabulary=4)
    return Crowd(
        target=target,
        drafter=Guesser(target, seed=0, acceptance=0.5),
        servers=servers,
        arrivals=arrivals,
        outages=(),
        target_latencies=(10,),
        drafter_latencies=(2,),
        messages=(1,),
        chunk=1000,
        poisons=poisons,
    )


TEXT = Arrival(0, (1, 2), StopCriteria(30), "dsi", 1)


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("servers", [1, 2, 3, 5])
def test_poison_in_a_crowd_costs_three_servers(servers: int, *, hangs: bool) -> None:
    poison = Poison(4, 10, Role.TARGET, 20, hangs)
    crowd = crowd_of(servers, *[TEXT] * 9, poisons=(poison,))
    driver = crowd.driver()
    served = driver()
    assert served["4"].error == CONVICTED
    assert len(served["4"].tokens) == 10 - len(TEXT.prompt)
    assert len(driver.poisoned) == MOST_DEATHS
    # Who got on shares again: the others end within the time of two texts.
    ends = [served[request].last for request in innocent(crowd, driver)]
    assert max(ends) - min(ends) < 20 * TEXT.criteria.max_tokens


def test_a_server_may_still_hang_for_another_request() -> None:
    """Poison was moved off the server on which an innocent one was to be tried, and hung it."""
    texts = [(0, 1, "dsi"), (102, 2, "dsi"), (14, 7, "non-si"), (11, 2, "dsi"), (1, 1, "dsi")]
    arrivals = [Arrival(at, (1, 1), StopCriteria(most), name, 1) for at, most, name in texts]
    crowd = replace(
        crowd_of(2, *arrivals, poisons=(Poison(2, 1, Role.TARGET, 13, hangs=True),)),
        outages=(Outage(0, 46, 179),),
        target_latencies=(11,),
        drafter_latencies=(8,),
        messages=(10,),
        chunk=1,
    )
    served = crowd.driver()()
    assert [request for request in served if served[request].error] == ["2"]


@given(
    st.integers(1, 5),
    st.sampled_from(["dsi", "non-si"]),
    st.lists(st.integers(0, 100), min_size=1, max_size=2),
)
def test_the_loss_of_all_servers_at_once_fails_nobody(
    servers: int, algorithm: str, times: list[int]
) -> None:
    """A node takes all its servers with it: that is one accident."""
    text = replace(TEXT, algorithm=algorithm, sp_degree=4)
    outages = tuple(Outage(i, time, 30) for time in times for i in range(servers))
    crowd = replace(crowd_of(servers, text, text), outages=outages)
    for request, served in crowd.driver()().items():
        assert served.tokens == crowd.expected(request)
