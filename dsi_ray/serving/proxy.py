"""What Serve's own proxy answers, in the envelope.

The proxy answers by itself where no replica can: with 404 while the application is not there, which
is while it starts and after it has stopped; with 503 where its queue is full; with 500 where a
replica died. All in plain text, and clients do not try again after a 404.
"""

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dsi_ray.serving.errors import ApiError

CALLBACK_VARIABLE = "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"
"""Where Serve's proxies look for :func:`middlewares`: in the environment that Ray starts in."""

_RETRY_AFTER_S = 5
_SERVES_OWN = "/-/"
"""Paths that Serve itself answers."""


def middlewares() -> list[Middleware]:
    """Called by Serve's proxies."""
    return [Middleware(Envelope)]


class Envelope:
    """Puts errors in plain text, which the application never sends, into the envelope."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http" or scope["path"].startswith(_SERVES_OWN):
            await self._app(scope, receive, send)
            return
        replaced = False

        async def watch(message: Message) -> None:
            nonlocal replaced
            if message["type"] == "http.response.start" and _is_serves_own_error(message):
                replaced = True
                await _error(message["status"]).response()(scope, receive, send)
            if not replaced:
                await send(message)

        await self._app(scope, receive, watch)


def _is_serves_own_error(start: Message) -> bool:
    kind = Headers(raw=start["headers"]).get("content-type", "")
    return start["status"] >= 400 and kind.startswith("text/plain")


def _error(status: int) -> ApiError:
    again = {"retry-after": str(_RETRY_AFTER_S)}
    match status:
        case 404:
            message = f"The server starts or stops. Try again in {_RETRY_AFTER_S} s."
            return ApiError(503, message, code="unavailable", headers=again)
        case 503:
            message = f"The server is too busy. Try again in {_RETRY_AFTER_S} s."
            return ApiError(503, message, code="overloaded", headers=again)
        case 408:
            return ApiError(408, "The request took too long.", code="request_timeout")
        case _:
            return ApiError(status, "The server failed to answer; its log says why.")
