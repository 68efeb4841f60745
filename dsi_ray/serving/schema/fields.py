"""Kinds of fields that several requests share."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import CoreSchema, PydanticCustomError, ValidationError, core_schema

from dsi_ray.params import MAX_LOGIT_BIAS, MAX_STOP, MAX_STOPS, MAX_TOKEN_IDS, StopString
from dsi_ray.runtime.client.prompts import is_unicode

UNSUPPORTED = "unsupported_parameter"
"""The kind of error, and OpenAI's code, for what is known but cannot be done."""


class RequestModel(BaseModel):
    """A request's body, or a part of it: nothing unknown, nothing converted."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Only:
    """Marks a parameter that is not supported: null and ``values``, which change nothing, pass."""

    def __init__(self, *values: object) -> None:
        self._values = values

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Makes pydantic call the check."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """What the documentation says."""
        return {"enum": [None, *self._values], "description": "Not supported otherwise."}

    def _check(self, value: object) -> object:
        if value is None or any(_same(value, allowed) for allowed in self._values):
            return value
        allowed = " or ".join(json.dumps(value) for value in (None, *self._values))
        raise PydanticCustomError(
            UNSUPPORTED, "Not supported: leave it out, or give {allowed}", {"allowed": allowed}
        )


def _same(value: object, allowed: object) -> bool:
    """Equal, but true is not 1."""
    return value == allowed and isinstance(value, bool) == isinstance(allowed, bool)


def one_message(text: str) -> WrapValidator:
    """Replaces the errors of every member of a union by one sentence."""

    def check(value: object, handler: ValidatorFunctionWrapHandler) -> object:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError("wrong_type", "{text}", {"text": text}) from None

    return WrapValidator(check)


def _with_integer_keys(bias: Any) -> Any:
    """JSON has only strings for keys. What is not a token id stays, to be refused."""
    if not isinstance(bias, Mapping):
        return bias
    return {
        int(key) if isinstance(key, str) and _is_natural(key) else key: value
        for key, value in bias.items()
    }


def _is_natural(text: str) -> bool:
    """Whether this is how an integer is written: in one way only, or two keys would be one."""
    return text == "0" or (text.isascii() and text.isdecimal() and text[0] != "0")


def _unicode(text: str) -> str:
    """Refuses half of a surrogate pair: JSON can write one, and no tokenizer can read it."""
    if not is_unicode(text):
        raise ValueError("Must be valid Unicode")
    return text


Text = Annotated[str, AfterValidator(_unicode)]
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
TokenIds = Annotated[list[TokenId], Field(fail_fast=True, max_length=MAX_TOKEN_IDS)]
PromptIds = Annotated[list[TokenId], Field(fail_fast=True, min_length=1)]
Stop = Annotated[
    StopString | Annotated[list[StopString], Field(max_length=MAX_STOPS)],
    one_message(
        f"Must be a string or a list of at most {MAX_STOPS} strings, each of 1 to {MAX_STOP} "
        "characters and valid Unicode"
    ),
]
LogitBias = Annotated[
    dict[TokenId, Annotated[float, Field(ge=-100, le=100)]],
    Field(
        max_length=MAX_LOGIT_BIAS,
        json_schema_extra={"propertyNames": {"pattern": "^(0|[1-9][0-9]{0,8})$"}},
    ),
    BeforeValidator(_with_integer_keys),
    one_message(
        f"Must map token ids to numbers from -100 to 100, at most {MAX_LOGIT_BIAS} of them"
    ),
]
Ignored = Annotated[Any, Field(description="Accepted and ignored.")]
