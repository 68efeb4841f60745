"""The order of all that happens to the logits of a forward."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dsi_ray.models.base import Forwarded, Sampling
from dsi_ray.models.hashing import path_keys, position_key
from dsi_ray.models.sampling.edits import edit_by_id, edits_by_id
from dsi_ray.models.sampling.logprobs import raw_logprobs
from dsi_ray.models.sampling.noise import gumbel
from dsi_ray.models.sampling.occurrences import Occurrences
from dsi_ray.models.sampling.penalties import penalise, penalises
from dsi_ray.models.sampling.rejection import accept_or_resample, draw_drafts
from dsi_ray.models.sampling.truncation import truncate, truncates


def choose(
    logits: Tensor,
    path: Sequence[int],
    sampling: Sampling,
    allowed: Tensor | None = None,
    proposals: Sequence[bytes] = (),
    occurrences: Occurrences | None = None,
) -> Forwarded:
    """Returns the token that each row of logits leads to.

    Of equal scores the smallest id wins. All arithmetic after the model's own is in float64, so
    that the choice of a row depends neither on the dtype of the model nor on its other rows.
    Servers whose logits differ in the last bits differ in the token only where two scores do not.

    Args:
        logits: Of shape (rows, vocabulary), of any float dtype, on any device; without padding.
            The last row is conditioned on the whole ``path``, the one before it on all but the
            last token, and so on: row ``i`` is of position ``len(path) + 1 - rows + i``.
        path: Prompt and output, at least ``rows`` ids.
        sampling: How to choose.
        allowed: What the request's guide allows, if it has one: booleans of the shape of
            ``logits``, some true in every row.
        proposals: What a drafter drew at each row's position, empty where it drew nothing; or none
            at all. Without ``sampling.rejection`` there are none.
        occurrences: Of the request: what penalties need not count again. It changes no token.

    Raises:
        ModelError: The parameters leave no token to choose.
    """
    logits = logits[:, : sampling.vocab_size]
    first = len(path) + 1 - logits.shape[0]
    scores = logits if allowed is None else _masked(logits, allowed)
    scores = _scores(scores, path, first, sampling, occurrences)
    keys = _keys(path, first, sampling)
    if sampling.drafts:
        return draw_drafts(scores, keys)
    if any(proposals):
        chosen = _verify(scores, keys, proposals)
    else:
        chosen = _draw(scores, keys)
    tokens: list[int] = chosen.tolist()
    if sampling.params.logprobs is None:
        return Forwarded(tokens)
    return Forwarded(tokens, raw_logprobs(logits, chosen, sampling.params.logprobs))


def is_plain(sampling: Sampling, vocab_size: int) -> bool:
    """Returns whether `choose` would just take the likeliest of ``vocab_size`` ids."""
    params = sampling.params
    return (
        params.is_greedy
        and params.guide is None
        and params.logprobs is None
        and sampling.vocab_size >= vocab_size
        and not edits_by_id(params)
        and not penalises(params)
    )


def _masked(logits: Tensor, allowed: Tensor) -> Tensor:
    return logits.masked_fill(~allowed[:, : logits.shape[1]].to(logits.device), float("-inf"))


def _scores(
    logits: Tensor,
    path: Sequence[int],
    first: int,
    sampling: Sampling,
    occurrences: Occurrences | None,
) -> Tensor:
    """The logits after all of the parameters: themselves for a plain greedy request."""
    params = sampling.params
    scores = logits
    if edits_by_id(params):
        scores = edit_by_id(scores.double(), first, sampling)
    if penalises(params):
        scores = penalise(scores.double(), path, first, sampling, occurrences)
    if params.is_greedy:
        return scores
    scores = scores.double()
    # The largest becomes 0: however small the temperature, nothing overflows.
    scores = (scores - scores.amax(-1, keepdim=True)) / params.temperature
    return truncate(scores, params) if truncates(params) else scores


def _keys(path: Sequence[int], first: int, sampling: Sampling) -> list[int]:
    """Of the noise of each row; none where there is none."""
    if sampling.params.is_greedy:
        return []
    if sampling.rejection:
        return path_keys(sampling.seed, path, first)
    return [position_key(sampling.seed, position) for position in range(first, len(path) + 1)]


def _draw(scores: Tensor, keys: Sequence[int]) -> Tensor:
    """Each row's own token: the likeliest without noise."""
    return (scores + gumbel(keys, scores.shape[1], scores.device) if keys else scores).argmax(-1)


def _verify(scores: Tensor, keys: Sequence[int], proposals: Sequence[bytes]) -> Tensor:
    """Each row's verdict on its draft, and its own token where there is none."""
    drafted = [row for row, proposal in enumerate(proposals) if proposal]
    plain = [row for row, proposal in enumerate(proposals) if not proposal]
    chosen = torch.empty(len(keys), dtype=torch.long, device=scores.device)
    chosen[drafted] = accept_or_resample(
        scores[drafted], [keys[row] for row in drafted], [proposals[row] for row in drafted]
    )
    if plain:
        chosen[plain] = _draw(scores[plain], [keys[row] for row in plain])
    return chosen
