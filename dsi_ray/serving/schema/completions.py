"""``POST /v1/completions``."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from dsi_ray.serving.schema.answers import AnyAnswer, AnyChoice, Extension
from dsi_ray.serving.schema.fields import UNSUPPORTED, Only, PromptIds, Text, one_message
from dsi_ray.serving.schema.generation import GenerationRequest

MAX_PROMPTS = 128
MAX_CHOICES = 128
"""Of one request: prompts times n."""

MAX_LOGPROBS = 5
DEFAULT_MAX_TOKENS = 16

Prompt = Text | PromptIds
Prompts = Annotated[
    Prompt
    | Annotated[list[Text], Field(fail_fast=True, min_length=1, max_length=MAX_PROMPTS)]
    | Annotated[list[PromptIds], Field(fail_fast=True, min_length=1, max_length=MAX_PROMPTS)],
    one_message(
        "Must be a string, a list of token ids, or a list of strings or of such lists "
        f"(1 to {MAX_PROMPTS}), no list empty and all valid Unicode"
    ),
]


class CompletionRequest(GenerationRequest):
    """Text that follows a prompt, or each of several. ``max_tokens: 0`` needs ``echo``."""

    prompt: Prompts
    echo: bool | None = None
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None

    suffix: Annotated[Any, Only("")] = None
    add_special_tokens: Annotated[Any, Only(True)] = None

    @field_validator("prompt")
    @classmethod
    def _few_choices(cls, prompt: Prompts, info: ValidationInfo) -> Prompts:
        several = isinstance(prompt, list) and not isinstance(prompt[0], int)
        if several and len(prompt) * (info.data.get("n") or 1) > MAX_CHOICES:
            raise ValueError(f"Prompts times n must not be more than {MAX_CHOICES}")
        return prompt

    @field_validator("max_tokens")
    @classmethod
    def _none_only_with_echo(cls, max_tokens: int | None, info: ValidationInfo) -> int | None:
        if max_tokens == 0 and not info.data.get("echo"):
            raise ValueError("Must be at least 1, or 0 with echo")
        return max_tokens

    @field_validator("logprobs")
    @classmethod
    def _not_of_the_prompt(cls, logprobs: int | None, info: ValidationInfo) -> int | None:
        if logprobs is not None and info.data.get("echo"):
            raise PydanticCustomError(UNSUPPORTED, "Not supported together with echo")
        return logprobs

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, each of which gets its choices."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return [prompt]
        if isinstance(prompt[0], int):
            return [[token for token in prompt if isinstance(token, int)]]
        return [item for item in prompt if not isinstance(item, int)]

    @property
    def wanted_tokens(self) -> int:
        """Most tokens of each choice."""
        return DEFAULT_MAX_TOKENS if self.max_tokens is None else self.max_tokens

    @property
    def wanted_logprobs(self) -> int | None:
        """How many alternatives to report at each position; None for no log probabilities."""
        return self.logprobs


class CompletionLogprobs(BaseModel):
    """Log probabilities, each list with one entry for each token.

    Attributes:
        tokens: As text; half a character is written ``bytes:\\xf0\\x9f``.
        token_logprobs: Of the tokens.
        top_logprobs: The likeliest tokens at each position, and the chosen one. Of tokens that read
            alike (a letter and the byte piece for it) the likeliest; chat lists them all.
        text_offset: Where each token begins in the choice's text, in characters. What has no text
            there, as special tokens, begins where the next token does.
    """

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class CompletionChoice(AnyChoice):
    """The text, or new text, of one choice."""

    text: str
    logprobs: CompletionLogprobs | None = None
    prompt_token_ids: Extension[list[int]] = None


class CompletionResponse(AnyAnswer):
    """The answer, or a chunk of it."""

    object: Literal["text_completion"] = "text_completion"
    choices: list[CompletionChoice]
