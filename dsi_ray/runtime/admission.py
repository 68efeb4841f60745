"""Which requests are let in."""

from collections.abc import Sequence

from dsi_ray.models.base import ModelInfo
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.errors import RequestError


def check_request(
    tokens: Sequence[int], params: SamplingParams, target: ModelInfo, max_model_len: int
) -> None:
    """Checks that the target can take a request.

    Raises:
        RequestError: It cannot.
    """
    if not tokens:
        raise RequestError("the prompt is empty: give at least one token", "prompt")
    wrong = next((token for token in tokens if not 0 <= token < target.vocab_size), None)
    if wrong is not None:
        raise RequestError(
            f"token id {wrong} is not in the vocabulary of {target.vocab_size} ids", "prompt"
        )
    if len(tokens) + params.max_tokens > max_model_len:
        raise RequestError(
            f"the context holds {max_model_len} tokens, but the prompt has {len(tokens)} and "
            f"max_tokens asks for {params.max_tokens} more: shorten the prompt or lower max_tokens",
            "prompt" if len(tokens) >= max_model_len else "max_tokens",
            code="context_length_exceeded",
        )
