"""Server-sent events over ASGI, which end their source whenever they end."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Self

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class EventStream(StreamingResponse):
    """Sends what a generator yields and closes it, also when the client goes away."""

    media_type = "text/event-stream"

    def __init__(self, first: str, rest: AsyncGenerator[str]) -> None:
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        super().__init__(_chain(first, rest), headers=headers)
        self._rest = rest

    @classmethod
    async def start(cls, events: AsyncGenerator[str]) -> Self:
        """Waits for the first event, so that an error before it still gets its own status."""
        return cls(await anext(events), events)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the events. Relying on garbage collection would let a generation run on."""
        async with aclosing(self._rest):
            await super().__call__(scope, receive, send)


async def _chain(first: str, rest: AsyncGenerator[str]) -> AsyncGenerator[str]:
    yield first
    async for event in rest:
        yield event
