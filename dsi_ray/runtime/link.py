"""Link: the requests of one event loop to one coordinator, their answers in one stream."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import ray

from dsi_ray.runtime.life import Life
from dsi_ray.runtime.outbox import unpack_deliveries
from dsi_ray.runtime.ray_errors import engine_errors
from dsi_ray.runtime.request import Generation, TokenChunk


class Link:
    """Requests to a coordinator. Reads its stream from the first request on, as long as it lives.

    Args:
        coordinator: The actor.
    """

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._open: dict[str, asyncio.Queue[TokenChunk | Exception]] = {}
        self._client = ""
        self._reader: asyncio.Task[None] | None = None

    async def generate(self, generation: Generation) -> AsyncGenerator[TokenChunk, None]:
        """Yields tokens as they are committed. Closing it ends the request everywhere.

        Raises:
            EngineError: It failed.
        """
        inbox: asyncio.Queue[TokenChunk | Exception] = asyncio.Queue()
        self._open[generation.id] = inbox
        if self._reader is None:
            self._client = uuid.uuid4().hex
            self._reader = asyncio.create_task(self._read(self._client))
        self._coordinator.submit.remote(self._client, generation)
        finished = False
        try:
            while not finished:
                chunk = await inbox.get()
                finished = isinstance(chunk, Exception) or chunk.finish_reason is not None
                if isinstance(chunk, Exception):
                    raise chunk
                yield chunk
        finally:
            del self._open[generation.id]
            if not finished:
                self._coordinator.abandon.remote(generation.id)

    async def _read(self, client: str) -> None:
        life: Life = [self._coordinator.live.remote()]
        items = self._coordinator.outputs.options(num_returns="streaming").remote(client, life)
        try:
            with engine_errors():
                async for item in items:
                    for request, chunk in unpack_deliveries(await item):
                        if request in self._open:
                            self._open[request].put_nowait(chunk)
        except Exception as error:
            # Whatever it is: those who wait hear of it nowhere else.
            self._reader = None
            for inbox in self._open.values():
                inbox.put_nowait(error)
        finally:
            # Dropping them does not end them.
            ray.cancel(items)
            ray.cancel(life[0])
