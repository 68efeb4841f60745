"""Outboxes: what the requests of one client process get, in one stream."""

import asyncio
import pickle
from collections.abc import AsyncIterator

from dsi_ray.runtime.active import Deliver
from dsi_ray.runtime.errors import EngineError
from dsi_ray.runtime.request import TokenChunk

Delivery = tuple[str, TokenChunk | EngineError]
"""A request's id and what it gets."""


class Outbox:
    """Collects what all requests of a client get until the stream takes it.

    Attributes:
        open: The requests that will get more.
    """

    def __init__(self) -> None:
        self.open: set[str] = set()
        self._waiting: list[Delivery] = []
        self._has_some = asyncio.Event()
        self._closed = False

    def of(self, request: str) -> Deliver:
        """Where to put what a request gets."""

        self.open.add(request)

        def deliver(chunk: TokenChunk | EngineError) -> None:
            if isinstance(chunk, EngineError) or chunk.finish_reason is not None:
                self.open.discard(request)
            self._waiting.append((request, chunk))
            self._has_some.set()

        return deliver

    def close(self) -> None:
        """Ends the stream: nobody reads it."""
        self._closed = True
        self._has_some.set()

    async def stream(self) -> AsyncIterator[bytes]:
        """Yields all that is there, as one bytes object: messages do not grow with requests."""
        while True:
            await self._has_some.wait()
            if self._closed:
                return
            self._has_some.clear()
            waiting, self._waiting = self._waiting, []
            yield pickle.dumps(waiting, pickle.HIGHEST_PROTOCOL)


def unpack_deliveries(data: bytes) -> list[Delivery]:
    """An item of :meth:`Outbox.stream`."""
    deliveries: list[Delivery] = pickle.loads(data)
    return deliveries
