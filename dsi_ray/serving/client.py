"""Whose request it is, for a fair queue.

The API key, where one is needed; else the address of the peer. Not the field ``user`` and no
header: whoever can choose a name can be many. Behind a load balancer without keys, and with one key
for all, everybody is one client.
"""

from collections.abc import Hashable
from contextvars import ContextVar

from starlette.types import ASGIApp, Receive, Scope, Send

client: ContextVar[Hashable] = ContextVar("client", default=None)
"""Of the request that is being answered."""


class PeerAddress:
    """Sets :data:`client` to the address of the peer, until a key says more."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] == "http":
            host, _ = scope.get("client") or (None, None)
            client.set(host)
        await self._app(scope, receive, send)
