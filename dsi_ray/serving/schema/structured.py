"""Structured output: the parameters that would shape a text. None is supported so far."""

from typing import Annotated, Any

from dsi_ray.serving.schema.fields import Only, RequestModel


class StructuredOutput(RequestModel):
    """OpenAI's ``response_format`` and vLLM's extensions."""

    response_format: Annotated[Any, Only({"type": "text"})] = None
    structured_outputs: Annotated[Any, Only()] = None
    guided_json: Annotated[Any, Only()] = None
    guided_regex: Annotated[Any, Only()] = None
    guided_choice: Annotated[Any, Only()] = None
    guided_grammar: Annotated[Any, Only()] = None
