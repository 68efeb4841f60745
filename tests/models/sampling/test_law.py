"""Frequencies against exact probabilities: one position, two, other seeds, other tokens."""

from collections.abc import Hashable

import oracle
import pytest
import torch
from statistics_of import misfit, product

from dsi_ray.models.base import Sampling
from dsi_ray.models.sampling import choose
from dsi_ray.params import SamplingParams

LOGITS = torch.tensor([1.0, 0.3, -0.4, 0.9, -1.3, 0.0, 1.4, -1.0], dtype=torch.float64)
"""Of the last positions; the first token of a text changes them."""

PROMPT = (6, 0, 6)
DRAWS = 20_000

LAWS: dict[str, dict[str, object]] = {
    "cold": {"temperature": 0.6},
    "as it is": {"temperature": 1},
    "hot": {"temperature": 2},
    "top_k": {"temperature": 1, "top_k": 4},
    "top_p": {"temperature": 1, "top_p": 0.8},
    "min_p": {"temperature": 1, "min_p": 0.2},
    "penalties": {"temperature": 1, "repetition_penalty": 1.6, "logit_bias": {4: 2}},
    "all": {
        "temperature": 1.3,
        "top_k": 6,
        "top_p": 0.95,
        "min_p": 0.05,
        "repetition_penalty": 1.3,
        "logit_bias": {4: 2, 3: -1},
        "bad_token_ids": (1,),
    },
}


def sampling(seed: int, **fields: object) -> Sampling:
    """Parameters for texts that follow ``PROMPT``."""
    return Sampling(SamplingParams(**fields), len(PROMPT), seed=seed)


def draw(rows: torch.Tensor, asked: Sampling) -> list[int]:
    """The choices at as many positions as there are rows, all after the same few ids."""
    return list(choose(rows, PROMPT[:1] * len(rows), asked).tokens)


def by_position(seed: int, **fields: object) -> list[int]:
    """One choice at each of ``DRAWS`` positions, with equal logits."""
    return draw(LOGITS.expand(DRAWS, -1), sampling(seed, **fields))


@pytest.mark.parametrize("name", LAWS)
def test_one_position_of_many_seeds(name: str) -> None:
    found = [
        choose(LOGITS[None], PROMPT, sampling(seed, **LAWS[name])).tokens[0] for seed in range(4000)
    ]
    assert abs(misfit(found, oracle.law(LOGITS, PROMPT, sampling(0, **LAWS[name])))) < 4


@pytest.mark.parametrize("seed", [0, 1, -1, 2**62])
def test_many_positions_of_one_seed(seed: int) -> None:
    law = oracle.law(LOGITS, PROMPT, sampling(seed, temperature=1))
    assert abs(misfit(by_position(seed, temperature=1), law)) < 4


@pytest.mark.parametrize("distance", [1, 2, 64])
def test_positions_are_independent(distance: int) -> None:
    found = by_position(5, temperature=1)
    law = oracle.law(LOGITS, PROMPT, sampling(5, temperature=1))
    assert abs(misfit(zip(found, found[distance:], strict=False), product(law, law))) < 4


@pytest.mark.parametrize("other", [6, -5, 5 + 2**32])
def test_seeds_are_independent(other: int) -> None:
    law = oracle.law(LOGITS, PROMPT, sampling(5, temperature=1))
    pairs = zip(by_position(5, temperature=1), by_position(other, temperature=1), strict=True)
    assert abs(misfit(pairs, product(law, law))) < 4


def test_three_positions_are_jointly_independent() -> None:
    """Pairs could be, and triples not."""
    rows = torch.tensor([[0.5, 0.0, -0.5]]).expand(DRAWS, -1)
    found = draw(rows, sampling(9, temperature=1))
    law = dict(enumerate(rows[0].softmax(-1).tolist()))
    triples = zip(found, found[1:], found[2:], strict=False)
    assert abs(misfit(triples, product(law, law, law))) < 4


def after(token: int) -> torch.Tensor:
    """The logits of the second token of a text, which depend on the first."""
    return LOGITS.roll(token) * 0.5


def test_two_tokens_of_a_text_have_their_joint_law() -> None:
    """The second is drawn after the first, with a penalty on it: an autoregressive text."""
    fields = {"temperature": 1, "presence_penalty": 0.7, "top_k": 5}
    found: list[Hashable] = []
    for seed in range(6000):
        first = choose(LOGITS[None], PROMPT, sampling(seed, **fields)).tokens[0]
        second = choose(after(first)[None], (*PROMPT, first), sampling(seed, **fields)).tokens[0]
        found.append((first, second))
    asked = sampling(0, **fields)
    law = {
        (a, b): p * q
        for a, p in oracle.law(LOGITS, PROMPT, asked).items()
        for b, q in oracle.law(after(a), (*PROMPT, a), asked).items()
    }
    assert abs(misfit(found, law)) < 4


def test_no_token_is_favoured() -> None:
    """Equal logits of a large vocabulary: every id as often as any other."""
    found = draw(torch.zeros(1, 1).expand(4000, 200), sampling(3, temperature=1))
    assert abs(misfit(found, dict.fromkeys(range(200), 1 / 200))) < 4


@pytest.mark.parametrize("name", LAWS)
def test_bug_17_draft_law_is_not_the_processed_law(name: str) -> None:
    """DeepSpec 31, vLLM 10198: a drafter's tokens have the law that its own logits and all of the
    request's parameters say, and a drafter with the target's logits drafts the target's tokens."""
    asked = sampling(0, **LAWS[name])
    own = LOGITS.flip(0)
    drafts = [
        choose(own[None], PROMPT, sampling(seed, **LAWS[name]).for_drafters).tokens[0]
        for seed in range(4000)
    ]
    assert abs(misfit(drafts, oracle.law(own, PROMPT, asked))) < 4
    rows = LOGITS.expand(500, -1)
    assert draw(rows, asked.for_drafters) == draw(rows, asked)
