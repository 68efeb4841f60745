"""The Ray Serve application.

No ``from __future__ import annotations`` here: Serve turns the builder's arguments into the class
of its annotation only where that is a class, not a string.
"""

from fastapi import FastAPI
from ray import serve
from ray.serve import Application

from dsi_ray.runtime.engine import Engine
from dsi_ray.serving.api import build_api
from dsi_ray.serving.config import ServingConfig

APP_NAME = "dsi-ray"
DEPLOYMENT_NAME = "Server"


@serve.deployment(
    name=DEPLOYMENT_NAME,
    num_replicas=1,
    max_ongoing_requests=256,
    max_constructor_retry_count=1,
    ray_actor_options={"num_cpus": 0},
)
@serve.ingress()
class Server:
    """The replica: it owns the engine and hosts the HTTP API."""

    def __init__(self, config: ServingConfig) -> None:
        self._config = config
        self._engine = Engine(config)

    async def __serve_build_asgi_app__(self) -> FastAPI:
        return build_api(self._engine, self._config.model_name)

    async def check_health(self) -> None:
        """Called by Serve, which starts a new replica where this raises."""
        await self._engine.status()

    def __del__(self) -> None:
        self._engine.close()


def build_app(args: ServingConfig) -> Application:
    """Builds the application: ``import_path: dsi_ray.serving.app:build_app``."""
    return Server.bind(args)
