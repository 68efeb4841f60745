"""Counts and times every answer."""

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dsi_ray.serving.metrics import ServiceMetrics

_OTHER = "other"
"""What did not get as far as a route."""


class Instrument:
    """Watches the answers of an application."""

    def __init__(self, app: ASGIApp, metrics: ServiceMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        started = time.perf_counter()
        try:
            await self._app(scope, receive, watch)
        finally:
            route = scope.get("route")
            endpoint = _OTHER if route is None else route.path
            # A client that went away before the answer began has no status.
            self._metrics.requests.labels(endpoint, status or "none").inc()
            self._metrics.request_seconds.labels(endpoint).observe(time.perf_counter() - started)
