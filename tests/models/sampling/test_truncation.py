"""top_k, top_p and min_p against transformers, on vocabularies large enough for every branch."""

import oracle
import pytest
import torch

from dsi_ray.models.base import Sampling
from dsi_ray.models.sampling.truncation import truncate
from dsi_ray.params import SamplingParams

SCALES = {"peaked": 8.0, "flat": 0.1}
"""Of a peaked law the first few tokens hold nearly all; of a flat one no few hundred do."""


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("vocab_size", [1, 5, 300, 5000])
@pytest.mark.parametrize("top_k", [0, 1, 40, 10_000])
@pytest.mark.parametrize("top_p", [1, 0.9, 0.3, 1e-9])
@pytest.mark.parametrize("min_p", [0, 0.02, 1])
def test_what_stays_is_what_transformers_leaves(
    scale: str, vocab_size: int, top_k: int, top_p: float, min_p: float
) -> None:
    generator = torch.Generator().manual_seed(vocab_size)
    scores = torch.randn(3, vocab_size, generator=generator, dtype=torch.float64) * SCALES[scale]
    params = SamplingParams(temperature=1, top_k=top_k, top_p=top_p, min_p=min_p)
    expected = oracle.warped(scores, Sampling(params, 1))
    assert torch.equal(truncate(scores, params), expected)


def test_a_flat_row_does_not_change_its_neighbour() -> None:
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(2, 5000, generator=generator, dtype=torch.float64)
    scores[0] *= 9
    params = SamplingParams(temperature=1, top_p=0.9)
    alone = torch.cat([truncate(row[None], params) for row in scores])
    assert torch.equal(truncate(scores, params), alone)


@pytest.mark.parametrize("fields", [{"top_k": 2}, {"top_p": 0.5}, {"min_p": 1}])
def test_equal_scores_share_one_fate(fields: dict[str, float]) -> None:
    scores = torch.tensor([[1.0, 3.0, 3.0, 3.0, 0.0]], dtype=torch.float64)
    kept = truncate(scores, SamplingParams(temperature=1, **fields)).isfinite()
    assert kept.tolist() == [[False, True, True, True, False]]


def test_what_a_mask_left_out_stays_out() -> None:
    scores = torch.tensor([[float("-inf"), 1.0, 0.0]], dtype=torch.float64)
    for fields in ({"top_k": 3}, {"top_p": 0.999}, {"min_p": 1e-9}):
        params = SamplingParams(temperature=1, **fields)
        assert torch.equal(truncate(scores, params), scores)
