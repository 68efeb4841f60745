"""Which requests are let in."""

from collections.abc import Iterable, Sequence

from dsi_ray.models.base import ModelInfo
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.errors import RequestError

_UNGUIDED_ONLY = ("min_tokens", "ignore_eos", "bad_token_ids", "allowed_token_ids")
"""With a guide these could leave no token to choose, and that only in mid-text."""

_NEED_LOGITS = (
    "temperature",
    "min_tokens",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "bad_token_ids",
    "allowed_token_ids",
    "logprobs",
    "guide",
)
"""What a model without logits cannot do. The others have no effect at temperature 0."""


def check_request(
    tokens: Sequence[int],
    params: SamplingParams,
    target: ModelInfo,
    max_model_len: int,
    max_tokens: int | None = None,
) -> None:
    """Checks that the target can take a request.

    Args:
        tokens: The prompt.
        params: What is asked of the output.
        target: The target.
        max_model_len: Most tokens of prompt and output together.
        max_tokens: In the place of the one in ``params``, which cannot be 0.

    Raises:
        RequestError: It cannot.
    """
    if not tokens:
        raise RequestError("the prompt is empty: give at least one token", "prompt")
    wanted = params.max_tokens if max_tokens is None else max_tokens
    if len(tokens) + wanted > max_model_len:
        raise RequestError(
            f"the context holds {max_model_len} tokens, but the prompt has {len(tokens)} and "
            f"max_tokens asks for {wanted} more: shorten the prompt or lower max_tokens",
            "prompt" if len(tokens) >= max_model_len else "max_tokens",
            code="context_length_exceeded",
        )
    _check_ids("prompt", tokens, target)
    _check_sampling(params, target)


def _check_sampling(params: SamplingParams, target: ModelInfo) -> None:
    _check_ids("stop_token_ids", params.stop_token_ids, target)
    _check_ids("logit_bias", (token for token, _ in params.logit_bias), target)
    _check_ids("bad_token_ids", params.bad_token_ids, target)
    _check_ids("allowed_token_ids", params.allowed_token_ids or (), target)
    _check_choice(params, target)
    if params.guide is not None:
        _check_guided(params, target)
    if target.has_logits:
        return
    neutral = SamplingParams()
    for name in _NEED_LOGITS:
        if getattr(params, name) != getattr(neutral, name):
            raise RequestError(
                f"the target ({target.name}) has no logits, which {name} needs: leave it out", name
            )


def _check_guided(params: SamplingParams, target: ModelInfo) -> None:
    for name in _UNGUIDED_ONLY:
        if getattr(params, name):
            raise RequestError(
                f"a guided text cannot be combined with {name}, which may leave no token to "
                "choose: leave one of them out",
                name,
            )
    if target.has_logits and not target.eos_ids:
        raise RequestError(
            f"the target ({target.name}) has no end of sequence, which a guided text needs", "guide"
        )


def _check_ids(name: str, tokens: Iterable[int], target: ModelInfo) -> None:
    wrong = next((token for token in tokens if not 0 <= token < target.vocab_size), None)
    if wrong is not None:
        raise RequestError(
            f"token id {wrong} is not in the vocabulary of {target.vocab_size} ids", name
        )


def _check_choice(params: SamplingParams, target: ModelInfo) -> None:
    """Checks that there is a token to choose at every position."""
    left: set[int] | range = range(target.vocab_size)
    if params.allowed_token_ids is not None:
        left = set(params.allowed_token_ids)
    forbidden = set(params.bad_token_ids)
    if params.min_tokens:
        forbidden |= {*target.eos_ids, *params.stop_token_ids}
    # Of most vocabularies only a small part can be forbidden: no need to look at each id.
    if len(left) <= len(forbidden) and forbidden.issuperset(left):
        name = "bad_token_ids" if params.allowed_token_ids is None else "allowed_token_ids"
        raise RequestError(
            "no token is left to choose: allow more ids, or forbid fewer or lower min_tokens", name
        )
