"""Log probabilities are the model's own, whatever the parameters; plain numbers."""

import math
import pickle

import torch
from hypothesis import given
from strategies_of import VOCAB, forwards, samplings

from dsi_ray.models.base import Sampling
from dsi_ray.models.sampling import choose
from dsi_ray.params import SamplingParams


@given(forward=forwards(), sampling=samplings(logprobs=4))
def test_bug_7_logprobs_wrong(
    forward: tuple[torch.Tensor, tuple[int, ...]], sampling: Sampling
) -> None:
    """vLLM 17876, llama.cpp 27972: raw, for each row its own token's, best first."""
    logits, path = forward
    found = choose(logits, path, sampling)
    assert len(found.logprobs) == len(found.tokens) == len(logits)
    for row, token, entry in zip(logits, found.tokens, found.logprobs, strict=True):
        total = math.log(sum(math.exp(logit) for logit in row.tolist()))
        expected = {i: logit - total for i, logit in enumerate(row.tolist())}
        assert math.isclose(entry.logprob, expected[token], abs_tol=1e-9)
        best = sorted(expected, key=lambda i: -expected[i])[:4]
        assert [i for i, _ in entry.top] == best
        assert all(math.isclose(value, expected[i], abs_tol=1e-9) for i, value in entry.top)


def test_none_are_computed_unless_asked_for() -> None:
    assert choose(torch.zeros(2, 3), (0, 0), Sampling(SamplingParams(), 1)).logprobs == ()


def test_zero_asks_for_the_chosen_tokens_only() -> None:
    sampling = Sampling(SamplingParams(logprobs=0), 1)
    (entry,) = choose(torch.zeros(1, 4), (0,), sampling).logprobs
    assert (entry.logprob, entry.top) == (-math.log(4), ())


def test_no_more_than_the_vocabulary_and_nothing_of_the_padding() -> None:
    sampling = Sampling(SamplingParams(logprobs=20), 1, vocab_size=VOCAB)
    logits = torch.cat([torch.zeros(1, VOCAB), torch.full((1, 9), 50.0)], 1)
    (entry,) = choose(logits, (0,), sampling).logprobs
    assert sorted(i for i, _ in entry.top) == list(range(VOCAB))
    assert math.isclose(entry.logprob, -math.log(VOCAB))


def test_they_are_plain_numbers() -> None:
    """What is not would drag torch into every message."""
    sampling = Sampling(SamplingParams(logprobs=2), 1)
    found = choose(torch.zeros(1, 4, dtype=torch.bfloat16), (0,), sampling)
    assert b"torch" not in pickle.dumps(found)
    assert b"numpy" not in pickle.dumps(found)
