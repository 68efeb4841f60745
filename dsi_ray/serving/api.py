"""The routes. Plain ASGI: nothing here knows of Serve."""

import time

from fastapi import FastAPI
from starlette.responses import JSONResponse, Response

import dsi_ray
from dsi_ray.runtime.engine import Engine
from dsi_ray.serving.completions import create_completion
from dsi_ray.serving.errors import ApiError, install_handlers
from dsi_ray.serving.page import install_page
from dsi_ray.serving.schema import Completion, CompletionRequest, ModelCard, ModelList
from dsi_ray.serving.traces import install_traces


def build_api(engine: Engine, model_name: str) -> FastAPI:
    """Returns the HTTP API of ``engine``, which serves ``model_name``."""
    app = FastAPI(title="dsi-ray", version=dsi_ray.__version__)
    install_handlers(app)
    install_page(app)
    install_traces(app, engine)
    card = ModelCard(id=model_name, created=int(time.time()), max_model_len=engine.max_model_len)

    def check_model(name: str, param: str | None = None) -> None:
        if name != model_name:
            raise ApiError(
                404,
                f"The model {name[:200]!r} does not exist; this server has {model_name!r}.",
                param=param,
                code="model_not_found",
            )

    @app.get("/v1/models")
    async def list_models() -> ModelList:
        return ModelList(data=[card])

    @app.get("/v1/models/{name:path}")
    async def get_model(name: str) -> ModelCard:
        check_model(name)
        return card

    @app.post("/v1/completions", response_model=Completion)
    async def post_completion(request: CompletionRequest) -> Response | Completion:
        check_model(request.model, "model")
        return await create_completion(engine, request)

    @app.get("/health")
    async def health() -> JSONResponse:
        try:
            status = await engine.status()
        except Exception as error:
            raise ApiError(503, "The engine does not answer.", code="unavailable") from error
        healthy = status["healthy"]
        body = {"status": "ok" if healthy else "failed", "model": model_name, **status}
        return JSONResponse(body, status_code=200 if healthy else 503)

    return app
