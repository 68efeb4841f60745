"""Bias and masks by id."""

import pytest
import torch

from dsi_ray.models.base import ModelError, Sampling
from dsi_ray.models.sampling import choose
from dsi_ray.params import SamplingParams

EOS, STOP = 0, 1
LOGITS = torch.tensor([9.0, 8.0, 7.0, 6.0])


def tokens(prompt_tokens: int, rows: int, **fields: object) -> list[int]:
    """The choices of a block after one more path token than rows, greedily."""
    params = SamplingParams(**fields)
    sampling = Sampling(params, prompt_tokens, frozenset({EOS, STOP}))
    return list(choose(LOGITS.expand(rows, 4), (3,) * (rows + 1), sampling).tokens)


@pytest.mark.parametrize("prompt_tokens", [1, 2, 4])
@pytest.mark.parametrize("min_tokens", range(6))
def test_bug_13_min_tokens_off_by_one(prompt_tokens: int, min_tokens: int) -> None:
    """vLLM 41768: exactly the first tokens after the prompt are not an end, wherever blocks begin.

    Row ``i`` of the block is of position ``i + 2``.
    """
    found = tokens(prompt_tokens, 8, min_tokens=min_tokens)
    generated = [position - prompt_tokens for position in range(2, 10)]
    expected = [2 if count < min_tokens else EOS for count in generated]
    output = [i for i, count in enumerate(generated) if count >= 0]
    assert [found[i] for i in output] == [expected[i] for i in output]


def test_a_bias_can_lift_and_ban() -> None:
    assert tokens(1, 1, logit_bias={3: 3.5}) == [3]
    assert tokens(1, 1, logit_bias={0: -100}) == [1]


def test_only_allowed_ids_are_chosen_and_never_bad_ones() -> None:
    assert tokens(1, 2, allowed_token_ids=(2, 3)) == [2, 2]
    assert tokens(1, 2, allowed_token_ids=(2, 3), bad_token_ids=(2,)) == [3, 3]


def test_a_bias_does_not_lift_what_is_forbidden() -> None:
    assert tokens(1, 1, logit_bias={3: 100}, bad_token_ids=(3,)) == [0]


def test_ids_beyond_the_vocabulary_have_no_effect() -> None:
    """They may be the target's, and the model a drafter that knows fewer."""
    beyond = {"logit_bias": {4: 100, 3: 50}, "bad_token_ids": (4, 9), "allowed_token_ids": (3, 7)}
    assert tokens(1, 1, **beyond) == [3]


@pytest.mark.parametrize(
    "fields",
    [
        {"allowed_token_ids": (4, 5)},
        {"allowed_token_ids": (2,), "bad_token_ids": (2,)},
        {"bad_token_ids": (0, 1, 2, 3)},
        {"allowed_token_ids": (EOS, STOP), "min_tokens": 4},
    ],
)
def test_nothing_left_is_an_error_and_no_nan(fields: dict[str, object]) -> None:
    for temperature in (0, 1):
        with pytest.raises(ModelError, match="leave no token to choose"):
            tokens(1, 1, temperature=temperature, **fields)
