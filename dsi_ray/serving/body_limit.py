"""A bound on the size of bodies, whether they say their length or come in chunks."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dsi_ray.serving.errors import ApiError


class BodyLimit:
    """Reads the body before anything else does, up to the limit; beyond it the answer is 413."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = await self._read(scope, receive)
        if body is None:
            error = ApiError(
                413, f"The body is larger than {self._limit} bytes.", code="request_too_large"
            )
            # Whoever sends more than that is not waited for.
            response = error.response({"connection": "close"})
            await response(scope, receive, send)
            return
        messages = iter([body])

        async def replay() -> Message:
            return next(messages, None) or await receive()

        await self._app(scope, replay, send)

    async def _read(self, scope: Scope, receive: Receive) -> Message | None:
        """The body as one message, or the client's going away; None if it is too large."""
        stated = Headers(scope=scope).get("content-length", "")
        if stated.isdecimal() and int(stated) > self._limit:
            return None
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return message
            part = message.get("body", b"")
            size += len(part)
            if size > self._limit:
                return None
            parts.append(part)
            more = message.get("more_body", False)
        return {"type": "http.request", "body": b"".join(parts), "more_body": False}
