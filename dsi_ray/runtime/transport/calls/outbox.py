"""Outboxes: what the requests of one client process get, in one stream."""

import asyncio
import pickle
from collections.abc import AsyncIterator

from dsi_ray.runtime.errors import EngineError
from dsi_ray.runtime.request import TokenChunk

Delivery = tuple[str, TokenChunk | EngineError]
"""A ticket, and what the request gets that was submitted with it."""


class Outbox:
    """Collects what all requests of a client get until the stream takes it."""

    def __init__(self) -> None:
        self._waiting: list[Delivery] = []
        self._has_some = asyncio.Event()
        self._closed = False

    def put(self, ticket: str, chunk: TokenChunk | EngineError) -> None:
        """Takes what a request gets."""
        self._waiting.append((ticket, chunk))
        self._has_some.set()

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
