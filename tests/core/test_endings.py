"""Requests that end early: the client goes away, a server fails."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dsi_ray.experiments.virtual.virtual_time import VirtualDriver, VirtualModel
from tests.core.hostile import HostileDriver
from tests.core.scenario import ALGORITHMS, Scenario, latency
from tests.core.strategies import scenarios

algorithms = pytest.mark.parametrize("algorithm", ALGORITHMS)
CONSTANT = st.integers(1, 30).map(lambda value: (value,))
FREE = st.just((0,))


def check_over(driver: HostileDriver) -> None:
    """Every task ended once and nothing is left anywhere."""
    assert Counter(driver.run.started) == Counter(driver.run.ended)
    assert set(Counter(driver.run.started).values()) == {1}
    assert all(not batch.busy for batch in driver.batches.values())
    assert driver.decoder.idle


@algorithms
@given(scenario=scenarios(min_drafters=1), moment=st.integers(1, 60))
def test_abandoned_request_leaves_nothing(algorithm: str, scenario: Scenario, moment: int) -> None:
    driver = scenario.driver(algorithm, abandon_after=moment)
    driver()
    check_over(driver)
    text, _ = scenario.expected
    assert driver.run.tokens == text[: len(driver.run.tokens)]


@algorithms
@given(scenario=scenarios(min_drafters=1, messages=CONSTANT), moment=st.integers(1, 60))
def test_no_forward_goes_on_after_the_cancels(
    algorithm: str, scenario: Scenario, moment: int
) -> None:
    driver = scenario.driver(algorithm, abandon_after=moment)
    driver()
    if driver.abandoned_at is not None:
        cancelled_at = driver.abandoned_at + scenario.messages[0]
        assert all(time <= cancelled_at for time, _ in driver.forwards)


@given(scenario=scenarios(min_drafters=1), forwards=st.integers(0, 10), data=st.data())
def test_target_failure_ends_the_request_once(
    scenario: Scenario, forwards: int, data: st.DataObject
) -> None:
    algorithm = data.draw(st.sampled_from(ALGORITHMS))
    target = data.draw(st.sampled_from(scenario.targets))
    driver = scenario.driver(algorithm, fails={target: forwards})
    driver()
    check_over(driver)
    finished = any(driver.finishes[-1:])
    assert len(driver.failures) == (0 if finished else 1)
    text, _ = scenario.expected
    assert driver.run.tokens == (text if finished else text[: len(driver.run.tokens)])


@given(
    scenario=scenarios(min_drafters=1, messages=FREE, target_latencies=CONSTANT, bets=False),
    forwards=st.lists(st.integers(0, 10), min_size=3, max_size=3),
)
def test_dsi_without_its_drafters_is_plain_decoding(
    scenario: Scenario, forwards: list[int]
) -> None:
    fails = dict(zip(scenario.drafter_servers, forwards, strict=False))
    driver = scenario.driver("dsi", fails=fails)
    run = driver()
    check_over(driver)
    text, reason = scenario.expected
    assert run.tokens == text
    assert driver.finishes[-1] is reason
    assert not driver.failures
    assert run.seconds <= scenario.seconds("non-si")


@pytest.mark.parametrize("algorithm", ["dsi", "si"])
@given(scenario=scenarios(min_drafters=1), forwards=st.integers(0, 10))
def test_failing_drafter_never_changes_the_text(
    algorithm: str, scenario: Scenario, forwards: int
) -> None:
    driver = scenario.driver(algorithm, fails={scenario.drafter_servers[0]: forwards})
    assert driver().tokens == scenario.expected[0]
    assert not driver.failures
    check_over(driver)


@pytest.mark.parametrize("algorithm", ["si", "dsi"])
@given(scenario=scenarios())
def test_bug_4_a_drafted_end_does_not_end_the_text(algorithm: str, scenario: Scenario) -> None:
    """What a drafter takes for the end of the text is a draft like any other."""
    assume(scenario.drafters)
    never = scenario.target.vocabulary
    ends = tuple(VirtualModel(lambda _: never, latency((1,))) for _ in scenario.drafters)
    criteria = replace(scenario.criteria, stop_ids=scenario.criteria.stop_ids | {never})
    changed = replace(scenario, criteria=criteria)
    models = changed.models() | dict(zip(changed.drafter_servers, ends, strict=False))
    run = VirtualDriver(changed.decoder(algorithm), models)()
    assert tuple(run.tokens) == tuple(scenario.expected[0])
