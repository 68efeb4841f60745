"""Requests and answers of the OpenAI API, as far as they are supported."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
)
from pydantic_core import PydanticCustomError, ValidationError

from dsi_ray.core.messages import FinishReason
from dsi_ray.params import MAX_STOPS, SamplingParams, StopString
from dsi_ray.serving.extension import DsiOptions

MAX_PROMPTS = 128
MAX_STOP_TOKEN_IDS = 128
DEFAULT_MAX_TOKENS = 16


def _only(*values: object) -> AfterValidator:
    """A parameter that is not supported: null and ``values``, which change nothing, are fine."""

    def check(value: object) -> object:
        if value is None or value in values:
            return value
        allowed = " or ".join(["null", *(repr(value).lower() for value in values)])
        raise PydanticCustomError(
            "unsupported_parameter", "Not supported: leave it out, or give {allowed}",
            {"allowed": allowed},
        )  # fmt: skip

    return AfterValidator(check)


def _one_message(text: str) -> WrapValidator:
    """Replaces the errors of every member of a union by one sentence."""

    def check(value: object, handler: ValidatorFunctionWrapHandler) -> object:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError("wrong_type", "{text}", {"text": text}) from None

    return WrapValidator(check)


def _greedy(value: float | None) -> float | None:
    if not value:
        return value
    raise PydanticCustomError(
        "unsupported_parameter", "Only 0, the default, is supported so far: decoding is greedy"
    )


TokenId = Annotated[int, Field(ge=0)]
TokenIds = Annotated[list[TokenId], Field(fail_fast=True, min_length=1)]
Prompt = str | TokenIds
Prompts = Annotated[
    Prompt
    | Annotated[list[str], Field(fail_fast=True, min_length=1, max_length=MAX_PROMPTS)]
    | Annotated[list[TokenIds], Field(fail_fast=True, min_length=1, max_length=MAX_PROMPTS)],
    _one_message(
        "Must be a string, a list of token ids, or a list of strings or of such lists "
        f"(at most {MAX_PROMPTS})"
    ),
]
Stop = Annotated[
    StopString | Annotated[list[StopString], Field(max_length=MAX_STOPS)],
    _one_message(f"Must be a string or a list of at most {MAX_STOPS} strings, none of them empty"),
]
Ignored = Annotated[Any, Field(description="Accepted and ignored.")]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class StreamOptions(_Request):
    """Options of a streamed answer."""

    include_usage: bool | None = None
    continuous_usage_stats: Annotated[Any, _only(False)] = None
    include_obfuscation: Annotated[Any, _only(False)] = None


class CompletionRequest(_Request):
    """``POST /v1/completions``. What is not supported is refused, never silently ignored."""

    model: str
    prompt: Prompts
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2), AfterValidator(_greedy)] | None = None
    stop: Stop | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop_token_ids: (
        Annotated[list[TokenId], Field(fail_fast=True, max_length=MAX_STOP_TOKEN_IDS)] | None
    ) = None
    ignore_eos: bool | None = None
    dsi: DsiOptions | None = None

    n: Annotated[Any, _only(1)] = None
    best_of: Annotated[Any, _only(1)] = None
    echo: Annotated[Any, _only(False)] = None
    logprobs: Annotated[Any, _only()] = None
    logit_bias: Annotated[Any, _only({})] = None
    presence_penalty: Annotated[Any, _only(0)] = None
    frequency_penalty: Annotated[Any, _only(0)] = None
    repetition_penalty: Annotated[Any, _only(1)] = None
    suffix: Annotated[Any, _only("")] = None
    top_p: Annotated[Any, _only(1)] = None
    top_k: Annotated[Any, _only(0, -1)] = None
    min_p: Annotated[Any, _only(0)] = None
    min_tokens: Annotated[Any, _only(0)] = None
    skip_special_tokens: Annotated[Any, _only(True)] = None
    return_token_ids: Annotated[Any, _only(False)] = None

    user: Ignored = None
    metadata: Ignored = None
    store: Ignored = None
    service_tier: Ignored = None

    @field_validator("stream_options")
    @classmethod
    def _belongs_to_a_stream(
        cls, options: StreamOptions | None, info: ValidationInfo
    ) -> StreamOptions | None:
        if options is not None and not info.data.get("stream"):
            raise ValueError("Needs stream: true")
        return options

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, one for each choice of the answer."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return [prompt]
        if isinstance(prompt[0], int):
            return [[token for token in prompt if isinstance(token, int)]]
        return [item for item in prompt if not isinstance(item, int)]

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with a chunk that counts the tokens."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def params(self) -> SamplingParams:
        """The parameters of the generation."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        return SamplingParams(
            max_tokens=self.max_tokens or DEFAULT_MAX_TOKENS,
            seed=self.seed,
            stop=stop,
            stop_token_ids=tuple(self.stop_token_ids or ()),
            ignore_eos=bool(self.ignore_eos),
        )


class Usage(BaseModel):
    """How many tokens came in and went out."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Choice(BaseModel):
    """The text, or new text, that follows one prompt."""

    index: int
    text: str
    logprobs: None = None
    finish_reason: FinishReason | None = None


class Completion(BaseModel):
    """The answer, or a chunk of it."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | None = None


class ModelCard(BaseModel):
    """A model that is served."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "dsi-ray"
    max_model_len: int


class ModelList(BaseModel):
    """``GET /v1/models``."""

    object: Literal["list"] = "list"
    data: list[ModelCard]
