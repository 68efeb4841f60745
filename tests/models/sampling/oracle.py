"""What a token should be, a row at a time, with the logits processors of transformers."""

from collections import Counter

import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinNewTokensLengthLogitsProcessor,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from dsi_ray.models.base import Sampling
from dsi_ray.models.hashing import position_key
from dsi_ray.models.sampling.noise import gumbel


def processed(logits: torch.Tensor, path: tuple[int, ...], sampling: Sampling) -> torch.Tensor:
    """The scores after ``path``, before any noise: of shape (vocabulary,), float64."""
    params = sampling.params
    scores = logits.double().clone()[None]
    for token, bias in params.logit_bias:
        scores[0, token] += bias
    forbidden = set(params.bad_token_ids)
    if params.allowed_token_ids is not None:
        forbidden |= set(range(scores.shape[1])) - set(params.allowed_token_ids)
    steps = LogitsProcessorList()
    if forbidden:
        steps.append(SuppressTokensLogitsProcessor(sorted(forbidden)))
    if params.min_tokens and sampling.end_ids:
        steps.append(
            MinNewTokensLengthLogitsProcessor(
                sampling.prompt_tokens, params.min_tokens, sorted(sampling.end_ids)
            )
        )
    steps.append(RepetitionPenaltyLogitsProcessor(params.repetition_penalty))
    scores = steps(torch.tensor([path]), scores)
    for token, count in Counter(path[sampling.prompt_tokens :]).items():
        scores[0, token] -= params.presence_penalty + count * params.frequency_penalty
    return warped(scores, sampling)[0]


def warped(scores: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """The scores after temperature and truncation; as they are if decoding is greedy."""
    params = sampling.params
    if params.is_greedy:
        return scores
    steps = LogitsProcessorList([TemperatureLogitsWarper(params.temperature)])
    if params.top_k:
        steps.append(TopKLogitsWarper(params.top_k))
    if params.top_p < 1:
        steps.append(TopPLogitsWarper(params.top_p))
    if params.min_p:
        steps.append(MinPLogitsWarper(params.min_p))
    return steps(torch.tensor([[0]]), scores)


def law(logits: torch.Tensor, path: tuple[int, ...], sampling: Sampling) -> dict[int, float]:
    """The probability of each token after ``path``."""
    return dict(enumerate(processed(logits, path, sampling).softmax(-1).tolist()))


def token(logits: torch.Tensor, path: tuple[int, ...], sampling: Sampling) -> int:
    """The token after ``path``."""
    scores = processed(logits, path, sampling)
    if not sampling.params.is_greedy:
        position = len(path)
        key = position_key(sampling.seed, position)
        scores = scores + gumbel([key], len(scores), scores.device)
    return int(scores.argmax())
