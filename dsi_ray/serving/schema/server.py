"""Answers about the server itself, and errors."""

import sys
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict


def _none_if_unlimited(tokens: int | None) -> int | None:
    return None if tokens == sys.maxsize else tokens


MaxModelLen = Annotated[int | None, AfterValidator(_none_if_unlimited)]
"""Most tokens of prompt and output together; None for a simulated model, which has no limit."""


class ModelCard(BaseModel):
    """A model that is served."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "dsi-ray"
    root: str
    max_model_len: MaxModelLen


class ModelList(BaseModel):
    """``GET /v1/models``."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class Version(BaseModel):
    """``GET /version``."""

    version: str


class Load(BaseModel):
    """How full the server is.

    Attributes:
        generations: Inside now, each choice of each prompt.
        max_generations: Most of them.
        tokens: That those inside may come to hold: prompts and outputs.
        max_tokens: Most of them; None is no limit.
        queued_requests: That wait.
        max_queued_requests: Most of them; further ones get 503.
        clients: Whose all these are: API keys, or without keys addresses.
    """

    generations: int
    max_generations: int
    tokens: int
    max_tokens: int | None
    queued_requests: int
    max_queued_requests: int
    clients: int


class IngressCard(BaseModel):
    """Which of several processes has answered."""

    index: int
    pid: int


class Health(BaseModel):
    """``GET /health``: how full the server is; what each group and each of its servers do now.

    Attributes:
        texts: For people: how long texts may be, where they end, and how they are sampled where a
            request does not say.
    """

    model_config = ConfigDict(extra="allow")

    status: Literal["ok", "failed"]
    model: str
    texts: str
    ingress: IngressCard
    load: Load
    groups: list[dict[str, Any]]


class ErrorDetail(BaseModel):
    """What went wrong, for programs and for people. All four keys are always there."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorEnvelope(BaseModel):
    """The body of every answer other than success."""

    error: ErrorDetail
