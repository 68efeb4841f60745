"""The whole choice: what an oracle of transformers' processors chooses, however it is computed."""

import dataclasses
from typing import Any

import oracle
import pytest
import torch
from hypothesis import given
from strategies_of import VOCAB, forwards, samplings

from dsi_ray.models.base import Sampling
from dsi_ray.models.sampling import choose
from dsi_ray.params import SamplingParams

GREEDY = Sampling(SamplingParams(), prompt_tokens=1)
Forward = tuple[torch.Tensor, tuple[int, ...]]


def row_path(forward: Forward, row: int) -> tuple[int, ...]:
    """What one row of a block is conditioned on."""
    logits, path = forward
    return path[: len(path) + 1 - len(logits) + row]


def one_by_one(forward: Forward, sampling: Sampling) -> list[int]:
    """The choice of each row, each in a forward of its own."""
    logits, _ = forward
    return [
        choose(logits[i : i + 1], row_path(forward, i), sampling).tokens[0]
        for i in range(len(logits))
    ]


@given(forward=forwards(), sampling=samplings())
def test_every_row_is_what_the_oracle_chooses(forward: Forward, sampling: Sampling) -> None:
    logits, path = forward
    expected = [oracle.token(row, row_path(forward, i), sampling) for i, row in enumerate(logits)]
    assert choose(logits, path, sampling).tokens == expected


@given(forward=forwards(), sampling=samplings())
def test_a_block_is_its_rows_one_by_one(forward: Forward, sampling: Sampling) -> None:
    logits, path = forward
    assert choose(logits, path, sampling).tokens == one_by_one(forward, sampling)


@given(forward=forwards(), sampling=samplings())
def test_logits_are_left_as_they_were(forward: Forward, sampling: Sampling) -> None:
    logits, path = forward
    before = logits.clone()
    choose(logits, path, sampling)
    assert (logits == before).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@given(forward=forwards(), sampling=samplings())
def test_the_dtype_of_equal_logits_does_not_matter(
    dtype: torch.dtype, forward: Forward, sampling: Sampling
) -> None:
    logits, path = forward
    rounded = logits.to(dtype)
    assert choose(rounded, path, sampling) == choose(rounded.double(), path, sampling)


@given(forward=forwards(), sampling=samplings(temperature=0.0))
def test_without_a_temperature_the_seed_does_not_matter(
    forward: Forward, sampling: Sampling
) -> None:
    other = dataclasses.replace(sampling, seed=sampling.seed ^ 1)
    assert choose(*forward, sampling) == choose(*forward, other)


def test_the_largest_logit_of_each_row_wins_and_the_first_of_equal_ones() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0], [3.0, 3.0, 3.0], [-2.0, -3.0, -1.0]])
    assert choose(logits, (0, 0, 0), GREEDY).tokens == [1, 0, 2]


@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-9])
@pytest.mark.parametrize("scale", [1, 1e4, 3e38])
def test_the_smallest_temperatures_are_greedy(temperature: float, scale: float) -> None:
    logits = torch.randn(50, VOCAB, generator=torch.Generator().manual_seed(1)) * scale
    params = SamplingParams(temperature=temperature, top_p=0.9, min_p=0.1)
    cold = Sampling(params, prompt_tokens=1, seed=3)
    assert choose(logits, (0,) * 50, cold).tokens == choose(logits, (0,) * 50, GREEDY).tokens


def test_a_drafter_has_the_same_choice_without_logprobs() -> None:
    asked = Sampling(SamplingParams(temperature=1, logprobs=3), 1, seed=5)
    assert asked.for_drafters == dataclasses.replace(
        asked, params=dataclasses.replace(asked.params, logprobs=None)
    )
    assert GREEDY.for_drafters is GREEDY


@given(forward=forwards(), sampling=samplings())
def test_bug_9_padded_vocab(forward: Forward, sampling: Sampling) -> None:
    """vLLM 5203, 7252: rows of padding, or ids that the target lacks, change nothing."""
    logits, path = forward
    padding = torch.full((len(logits), 5), 1e6, dtype=logits.dtype)
    assert choose(torch.cat([logits, padding], 1), path, sampling) == choose(logits, path, sampling)


EFFECTS: dict[str, Any] = {
    "presence_penalty": 2,
    "frequency_penalty": 2,
    "repetition_penalty": 5,
    "min_p": 0.9,
    "top_p": 0.1,
    "top_k": 1,
    "logit_bias": {3: 100},
    "bad_token_ids": (2,),
    "allowed_token_ids": (3, 4),
    "min_tokens": 64,
}


@pytest.mark.parametrize("field", EFFECTS)
def test_bugs_11_and_12_a_parameter_is_ignored(field: str) -> None:
    """vLLM 18902, SGLang 22049, vLLM 42744: each one changes some token of a block."""
    logits = torch.tensor([[0.0, 0.5, 2.0, 1.9]]).expand(64, 4)
    path = tuple([2] * 64)

    def tokens(**fields: Any) -> list[int]:
        params = SamplingParams(temperature=1, max_tokens=64, **fields)
        return list(choose(logits, path, Sampling(params, 1, frozenset({2}), seed=1)).tokens)

    assert tokens() != tokens(**{field: EFFECTS[field]})


def test_bug_14_seed_ignored() -> None:
    """vLLM 6038: one seed, one text; other seeds, other texts, the largest ones included."""
    logits = torch.zeros(32, VOCAB)

    def text(seed: int) -> tuple[int, ...]:
        hot = Sampling(SamplingParams(temperature=1), 1, seed=seed)
        return tuple(choose(logits, (0,) * 32, hot).tokens)

    seeds = [*range(-50, 50), 2**32, 2**62, 2**63 - 1, -(2**63)]
    assert [text(seed) for seed in seeds] == [text(seed) for seed in seeds]
    assert len({text(seed) for seed in seeds}) == len(seeds)
