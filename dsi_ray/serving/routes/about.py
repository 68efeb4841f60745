"""The paths that tell about the server and its model."""

import os
import time
from typing import Any

from fastapi import FastAPI
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, Response

import dsi_ray
from dsi_ray.runtime.client.text_facts import text_facts
from dsi_ray.serving.group_metrics import group_metrics
from dsi_ray.serving.routes.documented import Responses, errors
from dsi_ray.serving.schema.server import Health, ModelCard, ModelList, Version
from dsi_ray.serving.service import Service

_METRICS: Responses = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}

_HEALTH: Responses = {503: {"model": Health, "description": "Not healthy."}}


def add_routes(app: FastAPI, service: Service) -> None:
    """Adds the routes to ``app``."""
    card = ModelCard(
        id=service.model_name,
        created=int(time.time()),
        root=service.engine.target.name,
        max_model_len=service.engine.max_model_len,
    )

    @app.get("/v1/models", responses=errors(401, 500))
    async def list_models() -> ModelList:
        return ModelList(data=[card])

    @app.get("/v1/models/{name:path}", responses=errors(401, 404, 500))
    async def get_model(name: str) -> ModelCard:
        service.check_model(name)
        return card

    @app.get("/health", response_model=Health, responses=_HEALTH | errors(500))
    async def get_health() -> Response:
        status = await service.engine.status()
        healthy = status["healthy"]
        body = {
            "status": "ok" if healthy else "failed",
            "model": service.model_name,
            "texts": text_facts(service.engine.config, service.engine.target),
            "ingress": {"index": service.ingress, "pid": os.getpid()},
            "load": service.gate.load.model_dump(),
            "groups": [_without_metrics(group) for group in status["groups"]],
        }
        return JSONResponse(body, status_code=200 if healthy else 503)

    @app.get("/version", responses=errors(500))
    async def get_version() -> Version:
        return Version(version=dsi_ray.__version__)

    @app.get("/metrics", response_class=Response, responses=_METRICS | errors(401, 500))
    async def get_metrics() -> Response:
        text = service.metrics.text() + await group_metrics(service.engine, service.model_name)
        return Response(text, media_type=CONTENT_TYPE_LATEST)


def _without_metrics(group: dict[str, Any]) -> dict[str, Any]:
    """They are at ``/metrics``."""
    return {key: value for key, value in group.items() if key != "metrics"}
