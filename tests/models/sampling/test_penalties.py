"""Penalties: each row of a block knows the tokens before it, and no others."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.models.base import Sampling
from dsi_ray.models.sampling.penalties import penalise
from dsi_ray.params import SamplingParams

VOCAB = 5


@given(
    path=st.lists(st.integers(0, VOCAB + 2), min_size=1, max_size=12).map(tuple),
    prompt_tokens=st.integers(1, 12),
    rows=st.integers(1, 12),
)
def test_counts_of_each_row(path: tuple[int, ...], prompt_tokens: int, rows: int) -> None:
    """Ids beyond the vocabulary, which a drafter may meet on a target's path, count for nobody."""
    rows = min(rows, len(path))
    first = len(path) + 1 - rows
    params = SamplingParams(presence_penalty=0.5, frequency_penalty=2)
    scores = torch.zeros(rows, VOCAB, dtype=torch.float64)
    found = penalise(scores, path, first, Sampling(params, prompt_tokens))
    for row, position in enumerate(range(first, len(path) + 1)):
        counts = Counter(path[prompt_tokens:position])
        expected = [-2.0 * counts[i] - 0.5 * bool(counts[i]) for i in range(VOCAB)]
        assert found[row].tolist() == expected


def test_only_the_repetition_penalty_is_for_the_prompt() -> None:
    scores = torch.tensor([[2.0, -2.0, 2.0, 1.0]], dtype=torch.float64)
    path, prompt_tokens = (0, 1, 2), 2

    def penalised(**fields: float) -> list[float]:
        sampling = Sampling(SamplingParams(**fields), prompt_tokens)
        return penalise(scores, path, 3, sampling)[0].tolist()

    assert penalised(repetition_penalty=2) == [1, -4, 1, 1]
    assert penalised(presence_penalty=1) == [2, -2, 1, 1]
    assert penalised(frequency_penalty=-1) == [2, -2, 3, 1]


@pytest.mark.parametrize("penalty", [0.5, 2.0])
def test_what_a_mask_left_out_stays_out(penalty: float) -> None:
    never = float("-inf")
    scores = torch.tensor([[never, 0.0]], dtype=torch.float64)
    params = SamplingParams(repetition_penalty=penalty, presence_penalty=-2, frequency_penalty=-2)
    assert penalise(scores, (0, 0), 2, Sampling(params, 1))[0, 0] == never
