"""What both kinds of generation requests have in common."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from dsi_ray.models.hashing import choice_seed
from dsi_ray.params import RECOMMENDED, SamplingParams, Seed
from dsi_ray.runtime.errors import RequestError
from dsi_ray.serving.openai.extension import DsiOptions
from dsi_ray.serving.schema.fields import (
    UNSUPPORTED,
    Ignored,
    LogitBias,
    Only,
    RequestModel,
    Stop,
    TokenIds,
)
from dsi_ray.serving.schema.structured import StructuredOutput

MAX_N = 16


class StreamOptions(RequestModel):
    """Options of a streamed answer.

    Attributes:
        include_usage: Whether the stream ends with a chunk that counts the tokens.
        continuous_usage_stats: Whether every chunk counts the tokens so far.
    """

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    include_obfuscation: Annotated[Any, Only(False)] = None


class GenerationRequest(StructuredOutput):
    """A request for text. What is not supported is refused, never silently ignored."""

    model: str
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    logit_bias: LogitBias | None = None
    bad_token_ids: TokenIds | None = None
    allowed_token_ids: Annotated[TokenIds, Field(min_length=1)] | None = None
    seed: Seed | None = None
    n: Annotated[int, Field(ge=1, le=MAX_N)] | None = None
    best_of: Annotated[int, Field(ge=1, le=MAX_N)] | None = None
    stop: Stop | None = None
    stop_token_ids: TokenIds | None = None
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    return_token_ids: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    dsi: DsiOptions | None = None

    user: Ignored = None
    metadata: Ignored = None
    store: Ignored = None
    service_tier: Ignored = None
    safety_identifier: Ignored = None
    prompt_cache_key: Ignored = None

    bad_words: Annotated[Any, Only([])] = None
    include_stop_str_in_output: Annotated[Any, Only(False)] = None
    length_penalty: Annotated[Any, Only(1)] = None
    logits_processors: Annotated[Any, Only([])] = None
    priority: Annotated[Any, Only(0)] = None
    prompt_logprobs: Annotated[Any, Only()] = None
    spaces_between_special_tokens: Annotated[Any, Only(True)] = None
    truncate_prompt_tokens: Annotated[Any, Only()] = None
    use_beam_search: Annotated[Any, Only(False)] = None

    @field_validator("best_of")
    @classmethod
    def _best_of_is_n(cls, best_of: int | None, info: ValidationInfo) -> int | None:
        if best_of not in (None, 1, info.data.get("n")):
            raise PydanticCustomError(UNSUPPORTED, "Only 1 or the value of n is supported")
        return best_of

    @field_validator("stream_options")
    @classmethod
    def _belongs_to_a_stream(
        cls, options: StreamOptions | None, info: ValidationInfo
    ) -> StreamOptions | None:
        if options is not None and not info.data.get("stream"):
            raise ValueError("Needs stream: true")
        return options

    @property
    def choices(self) -> int:
        """How many choices each prompt gets."""
        return self.n or 1

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with a chunk that counts the tokens."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def continuous_usage(self) -> bool:
        """Whether every chunk of a stream counts the tokens so far."""
        return bool(self.stream_options and self.stream_options.continuous_usage_stats)

    @property
    def wanted_logprobs(self) -> int | None:
        """How many alternatives to report at each position; None for no log probabilities."""
        raise NotImplementedError

    def params(self, max_tokens: int, defaults: Mapping[str, float]) -> SamplingParams:
        """The parameters of the first choice, with ``defaults`` for what the request leaves out.

        Raises:
            RequestError: They contradict each other.
        """
        min_tokens = self.min_tokens or 0
        if min_tokens > max_tokens:
            raise RequestError(
                f"min_tokens must not be larger than max_tokens, which is {max_tokens}",
                "min_tokens",
            )
        named = {name: getattr(self, name) for name in RECOMMENDED}
        sampling = {**defaults, **{name: v for name, v in named.items() if v is not None}}
        return SamplingParams(
            max_tokens=max_tokens,
            min_tokens=min_tokens,
            **sampling,
            presence_penalty=self.presence_penalty or 0.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            logit_bias=tuple(sorted((self.logit_bias or {}).items())),
            bad_token_ids=tuple(self.bad_token_ids or ()),
            allowed_token_ids=tuple(self.allowed_token_ids) if self.allowed_token_ids else None,
            seed=self.seed,
            logprobs=self.wanted_logprobs,
            stop=(self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ()),
            stop_token_ids=tuple(self.stop_token_ids or ()),
            ignore_eos=bool(self.ignore_eos),
            skip_special_tokens=self.skip_special_tokens is not False,
            guide=self.guide,
        )

    def seed_of(self, index: int) -> int | None:
        """The seed of one of all choices: another for each, and the request's for the first."""
        return None if self.seed is None else choice_seed(self.seed, index)
