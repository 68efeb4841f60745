"""The name of a request in logs and error messages.

Serve's proxy takes the client's ``x-request-id`` or makes one, hands it on and puts it on every
answer, also on those that never come here.
"""

import re
import uuid
from contextvars import ContextVar

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

_SANE = re.compile(r"[\w.:/+=-]{1,128}", re.ASCII)

request_id: ContextVar[str] = ContextVar("request_id", default="unknown")
"""Of the request that is being answered."""


class RequestId:
    """Sets :data:`request_id`, to a new one where the request's could mislead in a log."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] == "http":
            given = Headers(scope=scope).get("x-request-id", "")
            request_id.set(given if _SANE.fullmatch(given) else uuid.uuid4().hex)
        await self._app(scope, receive, send)
