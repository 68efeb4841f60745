"""Whatever the drafters, the plan and the order of events: the text is the target's own."""

from collections import Counter

import pytest
from hypothesis import given

from dsi_ray.core.decoders import DSI, Decoder
from dsi_ray.core.messages import Cancel, Emit, Start
from tests.core.hostile import HostileDriver
from tests.core.scenario import ALGORITHMS, Scenario
from tests.core.strategies import scenarios

algorithms = pytest.mark.parametrize("algorithm", ALGORITHMS)


def watch(decoder: Decoder) -> None:
    """The anchor rule, and that of what a rejection left behind only as much runs on as is about
    to be replaced."""
    if not decoder.over and isinstance(decoder, DSI):
        assert decoder.tree.root in decoder.verifying.promised(), "nothing covers the root"
        kept = (live for live in decoder.verifying if live.displaced is None)
        dead = [live for live in kept if not live.useful and not live.task.is_prefill]
        assert len(dead) <= decoder.coming_blocks, "a dead branch runs on"


def check(scenario: Scenario, algorithm: str, driver: HostileDriver) -> None:
    """Right text, finished once, every task ended once, every server idle."""
    run = driver()
    text, reason = scenario.expected
    assert run.tokens == text
    assert driver.finishes == [None] * (len(driver.finishes) - 1) + [reason]
    assert not driver.failures
    assert Counter(run.started) == Counter(run.ended)
    assert set(Counter(run.started).values()) == {1}
    assert all(not batch.busy for batch in driver.batches.values())
    last = max(i for i, c in enumerate(driver.commands) if isinstance(c, Emit))
    assert all(isinstance(c, Cancel) for c in driver.commands[last + 1 :])


def playable(scenario: Scenario, algorithm: str) -> bool:
    """SI needs a drafter."""
    return algorithm != "si" or bool(scenario.drafters)


@algorithms
@given(scenario=scenarios())
def test_text_is_the_targets_own(algorithm: str, scenario: Scenario) -> None:
    if playable(scenario, algorithm):
        check(scenario, algorithm, scenario.driver(algorithm, observe=watch))


@algorithms
@given(scenario=scenarios())
def test_reordered_calls_change_nothing(algorithm: str, scenario: Scenario) -> None:
    if playable(scenario, algorithm):
        check(scenario, algorithm, scenario.driver(algorithm, observe=watch, ordered=False))


@given(scenario=scenarios())
def test_commands_name_tasks_once(scenario: Scenario) -> None:
    driver = scenario.driver("dsi")
    driver()
    started = [c.task.id for c in driver.commands if isinstance(c, Start)]
    cancelled = [c.task for c in driver.commands if isinstance(c, Cancel)]
    assert len(started) == len(set(started))
    assert len(cancelled) == len(set(cancelled))
    assert set(cancelled) <= set(started)
