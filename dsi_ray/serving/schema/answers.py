"""What all answers with text have in common."""

from typing import Annotated, TypeVar

from pydantic import BaseModel, Field

from dsi_ray.core.messages import FinishReason

T = TypeVar("T")
Extension = Annotated[T | None, Field(exclude_if=lambda value: value is None)]
"""A field that OpenAI's answers do not have: it is there only when it says something."""


class Usage(BaseModel):
    """How many tokens came in and went out."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class SpeculativeDecoding(BaseModel):
    """How well the drafts fared, in vLLM's words. A step is a draft and the target's token after
    it; where verification overlaps drafting it is as long as the target agreed.

    Attributes:
        mean_acceptance_length: Tokens of a step, the target's own included.
        draft_acceptance_rate: Share of the drafted tokens that were accepted.
        acceptance_histogram: Number of steps with 0, 1, 2, ... accepted tokens.
        num_spec_steps: Number of steps.
        num_accepted_draft_tokens: Accepted tokens of all steps.
        num_draft_tokens: Drafted tokens, those of dead branches included.
        num_spec_tokens: Accepted tokens of the longest step.
    """

    mean_acceptance_length: float
    draft_acceptance_rate: float
    acceptance_histogram: list[int]
    num_spec_steps: int
    num_accepted_draft_tokens: int
    num_draft_tokens: int
    num_spec_tokens: int


class RequestMetrics(BaseModel):
    """What a request took."""

    speculative_decoding: SpeculativeDecoding


class AnyChoice(BaseModel):
    """What choices and their chunks have in common.

    Attributes:
        finish_reason: Null until the end.
        token_ids: The output's, where the request asks for them.
        seed: With which the same request with ``n: 1`` gives this choice again.
    """

    index: int
    finish_reason: FinishReason | None = None
    token_ids: Extension[list[int]] = None
    seed: Extension[int] = None


class AnyAnswer(BaseModel):
    """What whole answers and chunks have in common."""

    id: str
    created: int
    model: str
    usage: Usage | None = None
    metrics: Extension[RequestMetrics] = None
