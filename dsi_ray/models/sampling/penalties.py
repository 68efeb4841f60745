"""Penalties on tokens that have occurred before, as transformers, vLLM and OpenAI have them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dsi_ray.core.path import Path
from dsi_ray.models.base import Sampling
from dsi_ray.models.sampling.occurrences import Occurrences
from dsi_ray.params import SamplingParams


def penalises(params: SamplingParams) -> bool:
    """Whether any of these parameters is in use."""
    penalties = params.repetition_penalty, params.presence_penalty, params.frequency_penalty
    return penalties != (1, 0, 0)


def penalise(
    scores: Tensor,
    path: Sequence[int],
    first: int,
    sampling: Sampling,
    occurrences: Occurrences | None = None,
) -> Tensor:
    """Returns the scores with the penalties, each row's for the tokens before it.

    Args:
        scores: Of shape (rows, vocabulary), float64.
        path: Prompt and output up to the last row's position.
        first: Position of the first row.
        sampling: The repetition penalty is for the prompt too, the others for the output only.
        occurrences: Of the request, if it has been here before: a long path is then not read again.
    """
    params, known = sampling.params, Path.of(path)
    occurrences = occurrences or Occurrences()
    if params.repetition_penalty != 1:
        occurred = occurrences.counts(known, 0, first, scores) > 0
        penalty = params.repetition_penalty
        penalised = torch.where(scores > 0, scores / penalty, scores * penalty)
        scores = torch.where(occurred, penalised, scores)
    if params.presence_penalty or params.frequency_penalty:
        counts = occurrences.counts(known, sampling.prompt_tokens, first, scores)
        scores = scores - params.frequency_penalty * counts - params.presence_penalty * (counts > 0)
    return scores
