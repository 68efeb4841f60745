"""Serve's ways, as the application sees them."""

import asyncio
from typing import Any

import ray
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from dsi_ray.serving.middleware.edge import Edge

from .asgi import scope


def test_a_cancelled_call_for_messages_is_a_client_that_left() -> None:
    seen: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(await receive())

    async def cancelled() -> Message:
        raise ray.exceptions.TaskCancelledError()

    async def send(message: Message) -> None: ...

    asyncio.run(Edge(app, [])(scope(), cancelled, send))
    assert seen == [{"type": "http.disconnect"}]


def test_serve_finds_the_routes() -> None:
    def endpoint(request: Any) -> None: ...

    routes = [Route("/v1/models", endpoint)]
    assert Edge(None, routes).routes == routes  # type: ignore[arg-type]
