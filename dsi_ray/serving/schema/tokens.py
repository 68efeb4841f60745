"""``POST /tokenize`` and ``POST /detokenize``, in vLLM's shapes."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, Discriminator, Field, Tag

from dsi_ray.serving.schema.chat import Conversation
from dsi_ray.serving.schema.fields import RequestModel, Text, TokenId
from dsi_ray.serving.schema.server import MaxModelLen


class TokenizeText(RequestModel):
    """A text to cut into tokens."""

    model: str | None = None
    prompt: Text
    add_special_tokens: bool = True
    return_token_strs: bool | None = None


class TokenizeChat(Conversation):
    """A conversation to cut into tokens, as its chat template writes it."""

    model: str | None = None
    return_token_strs: bool | None = None


def _kind(body: Any) -> str:
    chat = isinstance(body, TokenizeChat) or (isinstance(body, Mapping) and "messages" in body)
    return "chat-body" if chat else "text-body"


TokenizeRequest = Annotated[
    Annotated[TokenizeText, Tag("text-body")] | Annotated[TokenizeChat, Tag("chat-body")],
    Discriminator(_kind),
]


class Tokens(BaseModel):
    """Token ids, and where asked for what each of them stands for."""

    count: int
    max_model_len: MaxModelLen
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeRequest(RequestModel):
    """Token ids whose text is wanted."""

    model: str | None = None
    tokens: Annotated[list[TokenId], Field(fail_fast=True)]


class DetokenizedText(BaseModel):
    """The text of token ids, special tokens included."""

    prompt: str
