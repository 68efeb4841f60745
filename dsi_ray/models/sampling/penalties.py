"""Penalties on tokens that have occurred before, as transformers, vLLM and OpenAI have them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dsi_ray.models.base import Sampling
from dsi_ray.params import SamplingParams


def penalises(params: SamplingParams) -> bool:
    """Whether any of these parameters is in use."""
    penalties = params.repetition_penalty, params.presence_penalty, params.frequency_penalty
    return penalties != (1, 0, 0)


def penalise(scores: Tensor, path: Sequence[int], first: int, sampling: Sampling) -> Tensor:
    """Returns the scores with the penalties, each row's for the tokens before it.

    Args:
        scores: Of shape (rows, vocabulary), float64.
        path: Prompt and output up to the last row's position.
        first: Position of the first row.
        sampling: The repetition penalty is for the prompt too, the others for the output only.
    """
    params = sampling.params
    if params.repetition_penalty != 1:
        occurred = _counts(path, 0, first, scores) > 0
        penalty = params.repetition_penalty
        penalised = torch.where(scores > 0, scores / penalty, scores * penalty)
        scores = torch.where(occurred, penalised, scores)
    if params.presence_penalty or params.frequency_penalty:
        counts = _counts(path, sampling.prompt_tokens, first, scores)
        scores = scores - params.frequency_penalty * counts - params.presence_penalty * (counts > 0)
    return scores


def _counts(path: Sequence[int], begin: int, first: int, scores: Tensor) -> Tensor:
    """How often each id occurs in ``path[begin:]`` before each row: (rows, vocabulary)."""
    rows, vocab_size = scores.shape
    ids = torch.tensor(path[begin:], dtype=torch.long)
    # What stands before the first row counts from there on, any other from the row behind it on.
    since = (torch.arange(len(ids)) + (begin + 1 - first)).clamp_(min=0)
    # A drafter may know fewer ids than the path has.
    cells = (since * vocab_size + ids)[ids < vocab_size].to(scores.device)
    counts = torch.zeros(rows * vocab_size, dtype=scores.dtype, device=scores.device)
    counts.scatter_add_(0, cells, torch.ones_like(cells, dtype=scores.dtype))
    return counts.view(rows, vocab_size).cumsum(0)
