"""What a caller may ask of one request."""

from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

MAX_STOPS = 4
"""As many stop strings as the OpenAI API allows."""

StopString = Annotated[str, Field(min_length=1, max_length=256)]
_Natural = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class SamplingParams:
    """Parameters of one generation. All algorithms give the same tokens for the same parameters.

    Attributes:
        max_tokens: Most tokens to generate.
        temperature: Only 0 (greedy) so far.
        seed: Accepted; has no effect on greedy decoding.
        stop: Strings that end the text; they are not part of it.
        stop_token_ids: Ids that end the text; the id itself is part of the output tokens.
        ignore_eos: Go on past the model's end-of-sequence tokens.
    """

    max_tokens: Annotated[int, Field(ge=1)] = 128
    temperature: Annotated[float, Field(ge=0, le=0)] = 0.0
    seed: int | None = None
    stop: Annotated[tuple[StopString, ...], Field(max_length=MAX_STOPS)] = ()
    stop_token_ids: tuple[_Natural, ...] = ()
    ignore_eos: bool = False
