"""Bounds on bodies: their size, the time that they take to arrive, and how many arrive at once."""

import asyncio
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dsi_ray.serving.config import ServingConfig
from dsi_ray.serving.errors import ApiError


class BodyLimit:
    """Reads the body before anything else does; what is beyond a bound gets 408, 413 or 415.

    Where more bodies arrive at once than may, the one that began first is given up: an honest one
    takes a moment, so those that are sent byte by byte keep nobody out.

    Args:
        app: What gets the requests.
        config: The bounds.
        paths: Of the routes that take a body. Nobody waits for the body of another request.
    """

    def __init__(self, app: ASGIApp, config: ServingConfig, paths: Collection[str]) -> None:
        self._app = app
        self._max_bytes = config.max_body_bytes
        self._timeout_s = config.body_timeout_s
        self._max_bodies = config.max_bodies
        self._paths = paths
        self._arriving: dict[asyncio.Timeout, None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http" or scope["path"] not in self._paths:
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read(Headers(scope=scope), receive)
        except ApiError as error:
            # Whoever sends what nobody reads is not waited for.
            await error.response({"connection": "close"})(scope, receive, send)
            return
        messages = iter([body])

        async def replay() -> Message:
            return next(messages, None) or await receive()

        await self._app(scope, replay, send)

    async def _read(self, headers: Headers, receive: Receive) -> Message:
        """The body as one message, or the client's going away."""
        coding = headers.get("content-encoding", "identity")
        if coding.lower() not in ("", "identity"):
            raise ApiError(
                415,
                f"Content-Encoding {coding} is not supported: send the body uncompressed.",
                code="unsupported_content_encoding",
            )
        stated = headers.get("content-length", "")
        if stated.isdecimal() and int(stated) > self._max_bytes:
            raise self._too_large()
        try:
            async with asyncio.timeout(self._timeout_s) as timeout:
                self._make_room(timeout)
                return await self._receive(receive)
        except TimeoutError:
            raise ApiError(
                408,
                f"The body did not arrive in time: it may take {self._timeout_s:g} s, and less "
                "while many others arrive.",
                code="request_timeout",
            ) from None
        finally:
            self._arriving.pop(timeout, None)

    def _make_room(self, timeout: asyncio.Timeout) -> None:
        if len(self._arriving) >= self._max_bodies:
            first = next(iter(self._arriving))
            del self._arriving[first]
            if not first.expired():
                first.reschedule(0)
        self._arriving[timeout] = None

    async def _receive(self, receive: Receive) -> Message:
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return message
            part = message.get("body", b"")
            size += len(part)
            if size > self._max_bytes:
                raise self._too_large()
            parts.append(part)
            more = message.get("more_body", False)
        return {"type": "http.request", "body": b"".join(parts), "more_body": False}

    def _too_large(self) -> ApiError:
        return ApiError(
            413, f"The body is larger than {self._max_bytes} bytes.", code="request_too_large"
        )
