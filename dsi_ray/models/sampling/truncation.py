"""Cutting the tail of the distribution off: top_k, then top_p, then min_p.

Each keeps all that scores at least some value, so that equal scores share one fate and the order in
which a device sorts them does not matter.
"""

import math

import torch
from torch import Tensor

from dsi_ray.params import SamplingParams

_NEVER = float("-inf")

_HEAD = 256
"""The likeliest tokens of a large vocabulary, among which the tail of top_p usually begins."""


def truncates(params: SamplingParams) -> bool:
    """Whether any of these parameters is in use."""
    return bool(params.top_k or params.top_p < 1 or params.min_p)


def truncate(scores: Tensor, params: SamplingParams) -> Tensor:
    """Returns the scores with all below the floor of their row at minus infinity.

    Args:
        scores: Of shape (rows, vocabulary), float64: logits divided by the temperature.
        params: top_p is a share of what top_k leaves; min_p compares with the likeliest.
    """
    return scores.masked_fill(scores < _floor(scores, params), _NEVER)


def _floor(scores: Tensor, params: SamplingParams) -> Tensor:
    """The least score that stays: (rows, 1)."""
    floor = torch.full_like(scores[:, :1], _NEVER)
    ranked = scores
    if params.top_k:
        ranked = scores.topk(min(params.top_k, scores.shape[1])).values
        floor = ranked[:, -1:]
    if params.top_p < 1:
        floor = torch.maximum(floor, _nucleus(ranked, params.top_p))
    if params.min_p:
        least = scores.amax(-1, keepdim=True) + math.log(params.min_p)
        floor = torch.maximum(floor, least)
    return floor


def _nucleus(scores: Tensor, top_p: float) -> Tensor:
    """The score at which the probabilities, added from the largest on, first reach ``top_p``."""
    total = scores.logsumexp(-1, keepdim=True)
    # Sorting a large vocabulary takes longer than anything else here, and is hardly ever needed.
    for size in (_HEAD, scores.shape[1]):
        ranked = scores.topk(min(size, scores.shape[1])).values
        probabilities = (ranked - total).exp()
        upto = probabilities.cumsum(-1)
        if (upto[:, -1] >= top_p).all():
            break
    return ranked.masked_fill(upto - probabilities >= top_p, math.inf).amin(-1, keepdim=True)
