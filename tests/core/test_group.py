"""Group: many requests share servers that come and go, and each gets its own text."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from dsi_ray.core.commit import StopCriteria
from tests.core.crowd import Arrival, Crowd, Outage, crowds, job
from tests.core.language import Guesser, Language


@settings(max_examples=400, deadline=None)
@given(crowds())
def test_every_request_gets_its_text_whatever_happens_to_servers_and_others(crowd: Crowd) -> None:
    driver = crowd.driver()
    for request, served in driver().items():
        expected = crowd.expected(request)
        assert served.error is None or len(crowd.outages) >= 3
        if served.error is None and request not in driver.left:
            assert served.tokens == expected
        else:
            assert served.tokens == expected[: len(served.tokens)]


@settings(max_examples=200, deadline=None)
@given(crowds())
def test_nothing_is_left_behind(crowd: Crowd) -> None:
    driver = crowd.driver()
    driver()
    group = driver.group
    assert not group.members
    assert not group.tasks
    assert not driver.busy
    assert not any(group.pool.held(request) for request in driver.served)


def test_a_drafter_that_was_idle_when_it_died_comes_back_once() -> None:
    """It had been two drafters to the request, each of which replaced the other's task for ever."""
    target = Language(seed=0, vocabulary=2)
    arrival = Arrival(0, (0, 0), StopCriteria(7, frozenset()), "dsi", 1)
    crowd = Crowd(
        target=target,
        drafter=Guesser(target, seed=0, acceptance=0.0),
        servers=1,
        arrivals=(arrival, replace(arrival, criteria=StopCriteria(1, frozenset()))),
        outages=(Outage(0, 100, 0), Outage(1, 122, 0)),
        target_latencies=(23,),
        drafter_latencies=(1,),
        messages=(0,),
        chunk=1,
    )
    assert crowd.driver()()["0"].tokens == crowd.expected("0")


def test_a_second_request_of_the_same_id_disturbs_nobody() -> None:
    """It would have taken servers from others before it was refused."""
    target = Language(seed=0, vocabulary=4)
    arrival = Arrival(0, (1, 2), StopCriteria(30, frozenset()), "dsi", 4)
    crowd = Crowd(
        target=target,
        drafter=Guesser(target, seed=0, acceptance=0.5),
        servers=3,
        arrivals=(arrival,),
        outages=(),
        target_latencies=(10,),
        drafter_latencies=(2,),
        messages=(1,),
        chunk=4,
    )
    driver = crowd.driver()
    refused: list[str] = []

    def come_again() -> None:
        with pytest.raises(ValueError, match="in flight") as error:
            driver.group.admit(job("0", arrival))
        refused.append(str(error.value))

    driver._at(25, come_again)
    assert driver()["0"].tokens == crowd.expected("0")
    assert refused
