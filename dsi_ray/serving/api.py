"""The routes, and what surrounds them. Plain ASGI: nothing here knows of Serve."""

from collections.abc import Collection
from dataclasses import dataclass

from fastapi import FastAPI
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

import dsi_ray
from dsi_ray.runtime.client.engine import Engine
from dsi_ray.serving.client import PeerAddress
from dsi_ray.serving.config import ServingConfig
from dsi_ray.serving.errors import install_handlers
from dsi_ray.serving.middleware.auth import Auth
from dsi_ray.serving.middleware.body_limit import BodyLimit
from dsi_ray.serving.middleware.head import RequestHead
from dsi_ray.serving.middleware.instrument import Instrument
from dsi_ray.serving.middleware.request_id import RequestId
from dsi_ray.serving.routes import about, generate
from dsi_ray.serving.service import Service
from dsi_ray.serving.ui.page import install_page
from dsi_ray.serving.ui.traces import install_traces


@dataclass(frozen=True, slots=True)
class Api:
    """An application and its routes."""

    app: ASGIApp
    routes: list[BaseRoute]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        await self.app(scope, receive, send)


def build_api(
    engine: Engine, config: ServingConfig, keys: Collection[bytes] = (), ingress: int = 0
) -> Api:
    """Returns the HTTP API of ``engine``.

    Args:
        engine: What answers.
        config: Names and limits.
        keys: Digests of the API keys; none lets everybody in.
        ingress: Which of several processes that do this is the one.
    """
    service = Service(engine, config, ingress)
    routes = FastAPI(title="dsi-ray", version=dsi_ray.__version__)
    install_handlers(routes)
    generate.add_routes(routes, service)
    about.add_routes(routes, service)
    install_page(routes)
    install_traces(routes, engine)
    app: ASGIApp = BodyLimit(routes, config, _paths_with_body(routes))
    if keys:
        app = Auth(app, keys, config.open_paths)
    app = RequestId(RequestHead(Instrument(PeerAddress(app), service.metrics)))
    return Api(app, routes.routes)


def _paths_with_body(app: FastAPI) -> set[str]:
    return {
        route.path
        for route in app.routes
        if isinstance(route, Route) and "POST" in (route.methods or ())
    }
