"""Answers about the server itself, and errors."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class ModelCard(BaseModel):
    """A model that is served."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "dsi-ray"
    root: str
    max_model_len: int


class ModelList(BaseModel):
    """``GET /v1/models``."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class Version(BaseModel):
    """``GET /version``."""

    version: str


class Health(BaseModel):
    """``GET /health``: what the group and each of its servers do now."""

    model_config = ConfigDict(extra="allow")

    status: Literal["ok", "failed"]
    model: str
    servers: list[dict[str, Any]]


class ErrorDetail(BaseModel):
    """What went wrong, for programs and for people. All four keys are always there."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorEnvelope(BaseModel):
    """The body of every answer other than success."""

    error: ErrorDetail
