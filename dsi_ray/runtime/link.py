"""Link: the requests of one event loop to one coordinator, their answers in one stream."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import ray

from dsi_ray.runtime.errors import GroupUnreachable
from dsi_ray.runtime.life import Life
from dsi_ray.runtime.outbox import unpack_deliveries
from dsi_ray.runtime.outside import outside
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
        """By ticket: a submission's, even where two requests are given one id."""
        self._client = ""
        self._reader: asyncio.Task[None] | None = None

    async def generate(self, generation: Generation) -> AsyncGenerator[TokenChunk, None]:
        """Yields tokens as they are committed. Closing it ends the request everywhere.

        Raises:
            EngineError: It failed.
        """
        if self._reader is None:
            outside(self._connect)
        ticket = uuid.uuid4().hex
        inbox = self._open[ticket] = asyncio.Queue()
        finished = False
        try:
            submit = self._coordinator.submit.remote
            with engine_errors():
                await outside(submit, self._client, ticket, generation)
            while not finished:
                chunk = await inbox.get()
                finished = isinstance(chunk, Exception) or chunk.finish_reason is not None
                if isinstance(chunk, Exception):
                    raise chunk
                yield chunk
        finally:
            del self._open[ticket]
            if not finished:
                self._abandon(ticket)

    def _connect(self) -> None:
        self._client = uuid.uuid4().hex
        life: Life = [self._coordinator.live.remote()]
        outputs = self._coordinator.outputs.options(num_returns="streaming")
        self._reader = asyncio.create_task(self._read(outputs.remote(self._client, life), life))

    async def _read(self, items: Any, life: Life) -> None:
        try:
            with engine_errors():
                async for item in items:
                    for ticket, chunk in unpack_deliveries(await item):
                        self._hand_on(ticket, chunk)
            raise GroupUnreachable("the coordinator has ended the stream of outputs")
        except Exception as error:
            # Whatever it is: those who wait hear of it nowhere else.
            self._reader = None
            for inbox in self._open.values():
                inbox.put_nowait(error)
        finally:
            # Dropping them does not end them.
            ray.cancel(items)
            ray.cancel(life[0])

    def _hand_on(self, ticket: str, chunk: TokenChunk | Exception) -> None:
        if ticket in self._open:
            self._open[ticket].put_nowait(chunk)
        elif isinstance(chunk, TokenChunk) and chunk.finish_reason is None:
            # It goes on: the coordinator does not know that nobody waits for it.
            self._abandon(ticket)

    def _abandon(self, ticket: str) -> None:
        outside(self._coordinator.abandon.remote, ticket)
