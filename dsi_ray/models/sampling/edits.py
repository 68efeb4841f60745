"""What a request says of single token ids: bias, forbidden, allowed, and no end too early."""

from collections.abc import Iterable

import torch
from torch import Tensor

from dsi_ray.models.base import ModelError, Sampling
from dsi_ray.params import SamplingParams

_NEVER = float("-inf")


def edits_by_id(params: SamplingParams) -> bool:
    """Whether any of these parameters is in use."""
    return bool(
        params.logit_bias
        or params.bad_token_ids
        or params.allowed_token_ids is not None
        or params.min_tokens
    )


def edit_by_id(scores: Tensor, first: int, sampling: Sampling) -> Tensor:
    """Returns the scores with the bias added and what may not be chosen at minus infinity.

    Args:
        scores: Of shape (rows, vocabulary), float64.
        first: Position of the first row.
        sampling: Ids beyond the vocabulary, which may be a drafter's, have no effect.

    Raises:
        ModelError: Nothing is left in a row.
    """
    params = sampling.params
    scores = scores.clone()
    if params.logit_bias:
        _add_bias(scores, params.logit_bias)
    if params.allowed_token_ids is not None:
        allowed = _ids(params.allowed_token_ids, scores)
        forbidden = torch.ones(scores.shape[1], dtype=torch.bool, device=scores.device)
        scores.masked_fill_(forbidden.index_fill_(0, allowed, False), _NEVER)
    if params.bad_token_ids:
        scores.index_fill_(1, _ids(params.bad_token_ids, scores), _NEVER)
    if params.min_tokens and sampling.end_ids:
        # Rows before the position of the first token that may be the last.
        early = max(0, sampling.prompt_tokens + params.min_tokens - first)
        scores[:early].index_fill_(1, _ids(sampling.end_ids, scores), _NEVER)
    if (scores.amax(-1) == _NEVER).any():
        raise ModelError("the sampling parameters leave no token to choose: forbid fewer ids")
    return scores


def _add_bias(scores: Tensor, bias: Iterable[tuple[int, float]]) -> None:
    known = [(token, value) for token, value in bias if token < scores.shape[1]]
    ids = torch.tensor([token for token, _ in known], dtype=torch.long, device=scores.device)
    values = torch.tensor([value for _, value in known], dtype=scores.dtype, device=scores.device)
    scores[:, ids] += values


def _ids(tokens: Iterable[int], scores: Tensor) -> Tensor:
    known = [token for token in tokens if token < scores.shape[1]]
    return torch.tensor(known, dtype=torch.long, device=scores.device)
