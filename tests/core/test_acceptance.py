"""The acceptance that is counted against the trace."""

import pytest
from hypothesis import given

from tests.core.oracles import trace
from tests.core.scenario import Scenario
from tests.core.strategies import scenarios


@pytest.mark.parametrize("algorithm", ["dsi", "si"])
@given(scenario=scenarios(min_drafters=1, max_drafters=1, silent=False))
def test_counts_never_exceed_the_trace(algorithm: str, scenario: Scenario) -> None:
    driver = scenario.driver(algorithm)
    driver()
    hits = trace(scenario)
    assert driver.decoder.tree.accepted <= sum(hits)
    assert driver.decoder.tree.rejected <= len(hits) - sum(hits)


@given(scenario=scenarios(min_drafters=1, max_drafters=1, silent=False))
def test_taking_turns_counts_every_guess_once(scenario: Scenario) -> None:
    """Each turn guesses ``lookahead`` tokens, up to a stop, the drafter's context or the text's
    last token but one."""
    hits, (text, _) = trace(scenario), scenario.expected
    lookahead = scenario.plan.lookahead
    end = min(scenario.criteria.max_tokens - 1, scenario.contexts[0] - len(scenario.prompt))
    accepted = rejected = position = 0
    while position < len(hits):
        drafts = hits[position : max(position, min(position + lookahead, end))]
        run = drafts.index(False) if False in drafts else len(drafts)
        accepted += run
        rejected += run < len(drafts)
        position += run + 1
    driver = scenario.driver("si")
    driver()
    tree = driver.decoder.tree
    assert (tree.accepted, tree.rejected) == (accepted, rejected)
    assert len(tree.tokens) == len(scenario.prompt) + len(text)
