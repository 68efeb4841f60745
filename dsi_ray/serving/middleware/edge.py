"""Where the application meets Ray Serve."""

import ray
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Edge:
    """An application as Serve takes it.

    Attributes:
        routes: By which Serve's log and metrics name requests.
    """

    def __init__(self, app: ASGIApp, routes: list[BaseRoute]) -> None:
        self._app = app
        self.routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""

        async def receive_or_leave() -> Message:
            try:
                return await receive()
            except ray.exceptions.TaskCancelledError:
                # Serve cancels the call by which it asks its proxy for the client's messages
                # together with the request: the client has gone.
                return {"type": "http.disconnect"}

        await self._app(scope, receive_or_leave, send)
