"""What a caller may ask of one request."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

MAX_STOPS = 4
"""As many stop strings as the OpenAI API allows."""

MAX_LOGIT_BIAS = 1024
MAX_TOKEN_IDS = 4096
"""Of each list of ids. They travel with every task."""

MAX_LOGPROBS = 20
"""As many alternatives a position as the OpenAI API allows."""

MAX_GUIDE = 16_384
"""Characters of a guide. It travels with every task."""

MAX_ID = 2**31 - 1
"""Token ids travel as int32."""

MAX_STOP = 256
"""Characters of a stop string."""

RECOMMENDED = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
"""What a checkpoint's generation_config.json may set for requests that leave it out, as in vLLM."""

StopString = Annotated[str, Field(min_length=1, max_length=MAX_STOP)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]
_Natural = Annotated[int, Field(ge=0, le=MAX_ID)]
_TokenIds = Annotated[tuple[_Natural, ...], Field(max_length=MAX_TOKEN_IDS)]
_Bias = Annotated[float, Field(ge=-100, le=100)]
_Penalty = Annotated[float, Field(ge=-2, le=2)]


def _sorted_pairs(bias: Any) -> Any:
    """A mapping as pairs, which can be hashed; two that are equal stay equal."""
    return tuple(sorted(bias.items())) if isinstance(bias, Mapping) else bias


def _whole_vocabulary(top_k: Any) -> Any:
    """Off is 0, and what is beyond every vocabulary keeps all of it, as large as it may be."""
    if top_k == -1:
        return 0
    return min(top_k, MAX_ID) if isinstance(top_k, int) else top_k


def _several(stop: Any) -> Any:
    return (stop,) if isinstance(stop, str) else stop


def _above_zero(top_p: float) -> float:
    """The limit that 0 means: the likeliest token is always among those kept."""
    return max(top_p, sys.float_info.min)


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class Guide:
    """The form that the whole output must have.

    JSON is written without white space between its parts.

    Attributes:
        kind: What kind of form.
        text: The JSON schema, or the regular expression that the whole text matches.
        choices: The texts of which it is one.
    """

    kind: Literal["json_schema", "regex", "choice"]
    text: Annotated[str, Field(max_length=MAX_GUIDE)] = ""
    choices: tuple[Annotated[str, Field(min_length=1)], ...] = ()

    @classmethod
    def json_object(cls) -> Self:
        """Any JSON object."""
        return cls("json_schema", '{"type": "object"}')

    @model_validator(mode="after")
    def _check(self) -> Self:
        of_choices = self.kind == "choice"
        if of_choices != bool(self.choices) or of_choices == bool(self.text):
            raise ValueError("give choices for the kind choice, and a text for any other")
        if sum(map(len, self.choices)) > MAX_GUIDE:
            raise ValueError(f"choices must not be longer than {MAX_GUIDE} characters together")
        return self


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class SamplingParams:
    """Parameters of one generation. All algorithms give the same tokens for the same parameters.

    (Where drafts are verified by rejection sampling, tokens of the same distribution.)

    They act in this order: the guide; logit_bias and the masks by id; the penalties; then, unless
    the temperature is 0, temperature, top_k, top_p, min_p and the choice.

    Attributes:
        max_tokens: Most tokens to generate.
        min_tokens: No end of sequence and no stop id among this many first tokens. Stop strings
            are looked for from the first token on.
        temperature: 0 chooses the likeliest token (greedy).
        top_p: Only the likeliest tokens whose probabilities add up to this; 1 is off.
        top_k: Only this many likeliest tokens, and those as likely as the last; 0 or -1 is off.
        min_p: Only tokens at least this probable relative to the likeliest; 0 is off.
        repetition_penalty: Divides positive logits of tokens of the prompt and the output, and
            multiplies negative ones; 1 is off.
        presence_penalty: Taken from the logits of tokens of the output.
        frequency_penalty: The same, times how often they occur.
        logit_bias: Added to the logits: pairs of id and bias, or a mapping.
        bad_token_ids: Never chosen.
        allowed_token_ids: Nothing else is chosen; None allows all.
        seed: Of the randomness; None draws one. Greedy decoding has none.
        logprobs: How many alternatives to report at each position with the log probability of the
            chosen token; None reports nothing.
        stop: Strings that end the text, or one such; they are not part of it. They may name special
            tokens, also where these are left out of the text.
        stop_token_ids: Ids that end the text; the id itself is part of the output tokens.
        ignore_eos: Go on past the model's end-of-sequence tokens.
        skip_special_tokens: Leave special tokens out of the text.
        guide: The form of the text; None is off. The text ends only where the form is complete, or
            with max_tokens or a stop string, so it cannot be combined with what would leave no
            token to choose: min_tokens, ignore_eos, bad_token_ids and allowed_token_ids.
    """

    max_tokens: Annotated[int, Field(ge=1)] = 128
    min_tokens: _Natural = 0
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    top_p: Annotated[float, Field(ge=0, le=1), AfterValidator(_above_zero)] = 1.0
    top_k: Annotated[_Natural, BeforeValidator(_whole_vocabulary)] = 0
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] = 1.0
    presence_penalty: _Penalty = 0.0
    frequency_penalty: _Penalty = 0.0
    logit_bias: Annotated[
        tuple[tuple[_Natural, _Bias], ...],
        Field(max_length=MAX_LOGIT_BIAS),
        BeforeValidator(_sorted_pairs),
    ] = ()
    bad_token_ids: _TokenIds = ()
    allowed_token_ids: Annotated[_TokenIds, Field(min_length=1)] | None = None
    seed: Seed | None = None
    logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None
    stop: Annotated[
        tuple[StopString, ...], Field(max_length=MAX_STOPS), BeforeValidator(_several)
    ] = ()
    stop_token_ids: _TokenIds = ()
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    guide: Guide | None = None

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest token is chosen, without randomness."""
        return self.temperature == 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min_tokens > self.max_tokens:
            raise ValueError("min_tokens must not be larger than max_tokens")
        ids = [token for token, _ in self.logit_bias]
        if len(set(ids)) < len(ids):
            raise ValueError("logit_bias must name each token id once")
        return self
