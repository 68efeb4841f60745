"""Verification by rejection sampling: the law of whole texts, with real decoders."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import Plan
from dsi_ray.core.messages import Role, Start
from dsi_ray.models.base import Sampling
from dsi_ray.params import SamplingParams
from tests.core.language import Language, Prefix
from tests.core.sampled import SampledScenario, Table
from tests.core.scenario import Durations
from tests.core.strategies import durations, plans
from tests.models.sampling.statistics_of import misfit

EOS = 0
PROMPT = (1, 2)
END = StopCriteria(12, frozenset({EOS}))
TEXTS = 300
"""Of each case."""

DRAFTERS = {"identical": 0.0, "half right": 0.5, "hopeless": 1.0}
SERVERS = {"dsi 1": ("dsi", 1), "dsi 3": ("dsi", 3), "si": ("si", 1)}

ROWS = {1: torch.tensor([-1.5, 0.8, 0.1]).double(), 2: torch.tensor([-1.2, -0.4, 0.9]).double()}


class Chain(Table):
    """Depends on the last token only: few laws, so that each is met often.

    The worse a drafter, the more often it ends the text.
    """

    def logits(self, prefix: Prefix) -> torch.Tensor:
        """Of the token after ``prefix``; what follows the end of a text does not matter."""
        row = ROWS[prefix[-1] or 1]
        return (1 - self.blur) * row + self.blur * row.flip(0)


VOCABULARY = 3
TARGET = Chain(0, VOCABULARY)
LAWS = {last: row.softmax(-1).tolist() for last, row in ROWS.items()}


def scenario(
    blur: float, sp_degree: int, seed: int = 0, messages: Durations = (0,), drafters: int = 1
) -> SampledScenario:
    """A request whose drafts come fast or slowly, so that decode steps and blocks compete."""
    drafter = partial(Chain, 0, VOCABULARY, blur)
    params = SamplingParams(temperature=1, max_tokens=END.max_tokens)
    return SampledScenario(
        target=Language(0, VOCABULARY),
        drafters=(),
        prompt=PROMPT,
        criteria=END,
        sp_degree=sp_degree,
        plan=Plan(2, 5, first_block=2),
        target_latencies=(10, 7, 12),
        drafter_latencies=((2, 5, 3),) * drafters,
        messages=messages,
        sampling=Sampling(params, len(PROMPT), frozenset({EOS}), seed, rejection=True),
        new_target=lambda: TARGET,
        new_drafters=(drafter,) * drafters,
    )


def transitions(blur: float, algorithm: str, sp_degree: int) -> Iterator[tuple[int, int]]:
    """Each token of many texts, with the one before it."""
    for seed in range(TEXTS):
        driver = scenario(blur, sp_degree, seed, messages=(seed % 4,)).driver(algorithm)
        yield from pairwise((PROMPT[-1], *driver().tokens))


@pytest.mark.parametrize("blur", DRAFTERS.values(), ids=DRAFTERS)
@pytest.mark.parametrize(("algorithm", "sp_degree"), SERVERS.values(), ids=SERVERS)
def test_texts_have_the_targets_law(algorithm: str, sp_degree: int, blur: float) -> None:
    """Each token after each other one, the ends of texts included."""
    found = list(transitions(blur, algorithm, sp_degree))
    for last, law in LAWS.items():
        after = [token for before, token in found if before == last]
        assert len(after) > 300
        assert abs(misfit(after, dict(enumerate(law)))) < 4


def acceptance(algorithm: str, *, rejection: bool) -> float:
    """Share of judged drafts that were accepted, in long texts of a larger vocabulary."""
    rates = Counter[str]()
    for seed in range(10):
        short = scenario(0.4, 1, seed)
        long = dataclasses.replace(
            short,
            criteria=StopCriteria(40),
            plan=Plan(4, 10),
            sampling=dataclasses.replace(short.sampling, rejection=rejection),
            new_target=partial(Table, 1, 32),
            new_drafters=(partial(Table, 1, 32, 0.4),),
        )
        driver = long.driver(algorithm)
        driver()
        tree = driver.decoder.tree
        rates.update(accepted=tree.accepted, judged=tree.accepted + tree.rejected)
    return rates["accepted"] / rates["judged"]


@pytest.mark.parametrize("algorithm", ["si", "dsi"])
def test_more_drafts_are_accepted_than_by_exact_matching(algorithm: str) -> None:
    """In SI all drafts are verified together with what they were drawn from; in DSI the first of a
    block often is not: its verdict was under way before the draft was there."""
    assert acceptance(algorithm, rejection=True) > acceptance(algorithm, rejection=False)


@settings(max_examples=30)
@given(
    blur=st.sampled_from([0.0, 0.5, 1.0]),
    sp_degree=st.integers(1, 3),
    messages=durations(),
    plan=plans(),
    algorithm=st.sampled_from(["dsi", "si", "non-si"]),
    ordered=st.booleans(),
)
def test_any_run_ends_as_it_should(
    blur: float, sp_degree: int, messages: Durations, plan: Plan, algorithm: str, ordered: bool
) -> None:
    asked = dataclasses.replace(scenario(blur, sp_degree, messages=messages, drafters=2), plan=plan)
    driver = asked.driver(algorithm, ordered=ordered)
    tokens = driver().tokens
    assert driver.finishes[-1] is END.finish(len(tokens), tokens[-1])
    assert EOS not in tokens[:-1]
    assert Counter(driver.run.started) == Counter(driver.run.ended)
    assert all(not batch.busy for batch in driver.batches.values())


def tasks(asked: SampledScenario) -> list[Start]:
    """All that DSI started."""
    driver = asked.driver("dsi")
    driver()
    return [command for command in driver.commands if isinstance(command, Start)]


def test_when_a_draft_comes_does_not_depend_on_what_it_is() -> None:
    """A drafter does not stop where a text may end, and only one guesses."""
    drafting = [
        start.task
        for seed in range(20)
        for start in tasks(scenario(0.4, 3, seed, drafters=2))
        if start.task.server.role is Role.DRAFTER
    ]
    assert drafting
    assert {task.server.index for task in drafting} == {0}
    assert not any(task.stops for task in drafting)


def test_exact_verification_carries_no_proposals() -> None:
    asked = scenario(0.4, 3)
    exact = dataclasses.replace(asked.sampling, rejection=False)
    assert any(start.task.proposals for start in tasks(asked))
    assert not any(
        start.task.proposals for start in tasks(dataclasses.replace(asked, sampling=exact))
    )


def test_the_laws_tell_the_drafters_from_the_target() -> None:
    """Guards the cases above: a text of the drafter's law would be noticed."""
    half = Chain(0, VOCABULARY, DRAFTERS["half right"])
    for last, law in LAWS.items():
        own = half.logits((last,)).softmax(-1).tolist()
        expected = [token for token, p in enumerate(own) for _ in range(round(300 * p))]
        assert misfit(expected, dict(enumerate(law))) > 10
