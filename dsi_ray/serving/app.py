"""The Ray Serve application.

No ``from __future__ import annotations`` here: Serve turns the builder's arguments into the class
of its annotation only where that is a class, not a string.
"""

from fastapi import FastAPI
from ray import serve
from ray.serve import Application

from dsi_ray.runtime.engine import Engine
from dsi_ray.runtime.errors import EngineError
from dsi_ray.serving.api import build_api
from dsi_ray.serving.config import ServingConfig

APP_NAME = "dsi-ray"
DEPLOYMENT_NAME = "Server"


class Replica:
    """Owns the engine and hosts the HTTP API."""

    def __init__(self, config: ServingConfig) -> None:
        self._config = config
        self._engine = Engine(config)

    async def __serve_build_asgi_app__(self) -> FastAPI:
        return build_api(self._engine, self._config.model_name)

    async def check_health(self) -> None:
        """Called by Serve, which starts a new replica where this raises."""
        status = await self._engine.status()
        if not status["healthy"]:
            raise EngineError("a model server was lost")

    def __del__(self) -> None:
        """Called by Serve when it takes the replica away."""
        if hasattr(self, "_engine"):
            self._engine.close()


# Streams are long and cost the replica little: Serve's default would let 5 at a time in.
Server = serve.deployment(
    name=DEPLOYMENT_NAME,
    num_replicas=1,
    max_ongoing_requests=256,
    ray_actor_options={"num_cpus": 0},
)(serve.ingress()(Replica))


def build_app(args: ServingConfig) -> Application:
    """Builds the application: ``import_path: dsi_ray.serving.app:build_app``."""
    return Server.bind(args)
