"""Structured output: the parameters that shape a text."""

import json
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from dsi_ray.params import Guide
from dsi_ray.runtime.errors import RequestError
from dsi_ray.serving.schema.fields import Only, RequestModel, Text, one_message


class TextFormat(RequestModel):
    """Any text."""

    type: Literal["text"]


class JsonObjectFormat(RequestModel):
    """Any JSON object."""

    type: Literal["json_object"]


class NamedSchema(RequestModel):
    """A JSON schema. It is enforced with and without ``strict``."""

    name: Annotated[str, Field(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    description: str | None = None
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool | None = None


class JsonSchemaFormat(RequestModel):
    """JSON that a schema describes."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


ResponseFormat = Annotated[
    TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")
]


Schema = Annotated[
    dict[str, Any] | Text, one_message("Must be a JSON schema: an object, or its text")
]


class StructuredOutput(RequestModel):
    """OpenAI's ``response_format`` and vLLM's extensions, of which one may be given."""

    response_format: ResponseFormat | None = None
    guided_json: Schema | None = None
    guided_regex: Annotated[Text, Field(min_length=1)] | None = None
    guided_choice: Annotated[list[Text], Field(min_length=1)] | None = None
    structured_outputs: Annotated[Any, Only()] = None
    guided_grammar: Annotated[Any, Only()] = None

    @field_validator("guided_json", "guided_regex", "guided_choice")
    @classmethod
    def _alone(cls, value: Any, info: ValidationInfo) -> Any:
        others = (name for name, other in info.data.items() if _shapes(name, other))
        if value is not None and (other := next(others, None)):
            raise ValueError(f"Cannot be combined with {other}")
        return value

    @property
    def guide_field(self) -> str | None:
        """The field that shapes the text."""
        return next((name for name in _SHAPING if _shapes(name, getattr(self, name))), None)

    @property
    def guide(self) -> Guide | None:
        """The form of the text.

        Raises:
            RequestError: It is too long.
        """
        try:
            return self._guide
        except ValidationError as error:
            message = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise RequestError(message, str(self.guide_field)) from error

    @property
    def _guide(self) -> Guide | None:
        match self.response_format:
            case JsonObjectFormat():
                return Guide.json_object()
            case JsonSchemaFormat(json_schema=named):
                return Guide("json_schema", json.dumps(named.schema_))
        if self.guided_json is not None:
            schema = self.guided_json
            return Guide("json_schema", schema if isinstance(schema, str) else json.dumps(schema))
        if self.guided_regex is not None:
            return Guide("regex", self.guided_regex)
        if self.guided_choice is not None:
            return Guide("choice", choices=tuple(self.guided_choice))
        return None


_SHAPING = ("response_format", "guided_json", "guided_regex", "guided_choice")


def _shapes(name: str, value: object) -> bool:
    return name in _SHAPING and value is not None and not isinstance(value, TextFormat)
