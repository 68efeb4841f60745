"""The client's end of actor calls to a coordinator: requests in calls, a stream of answers."""

import uuid
from collections.abc import Callable
from typing import Any

import ray

from dsi_ray.runtime.errors import EngineError, GroupUnreachable
from dsi_ray.runtime.ray.errors import engine_errors
from dsi_ray.runtime.ray.outside import outside
from dsi_ray.runtime.request import Generation, TokenChunk
from dsi_ray.runtime.transport.calls.lease import Lease
from dsi_ray.runtime.transport.calls.outbox import unpack_deliveries


class ClientCalls:
    """Requests over Ray's ports alone, until the stream ends.

    Args:
        coordinator: The actor.
        deliver: Called with a ticket and what its request gets; whether anybody waits for it.
    """

    def __init__(
        self, coordinator: Any, deliver: Callable[[str, TokenChunk | EngineError], bool]
    ) -> None:
        self._coordinator = coordinator
        self._deliver = deliver
        self._client = uuid.uuid4().hex

    async def open(self) -> None:
        """Begins the stream."""
        self._life: Lease = [self._coordinator.live.remote()]
        outputs = self._coordinator.outputs.options(num_returns="streaming")
        self._items = outputs.remote(self._client, self._life)

    async def run(self) -> None:
        """Reads the stream to its end.

        Raises:
            GroupLost: The coordinator was lost, or cannot be reached.
        """
        try:
            with engine_errors():
                async for item in self._items:
                    for ticket, chunk in unpack_deliveries(await item):
                        waited_for = self._deliver(ticket, chunk)
                        if not waited_for and _goes_on(chunk):
                            # The coordinator does not know that it is for nobody.
                            self.abandon(ticket)
            raise GroupUnreachable("the coordinator has ended the stream of outputs")
        finally:
            # Dropping them does not end them.
            ray.cancel(self._items)
            ray.cancel(self._life[0])

    async def submit(self, ticket: str, generation: Generation) -> None:
        """Begins a request.

        Raises:
            GroupLost: The coordinator was lost, or cannot be reached.
        """
        submit = self._coordinator.submit.remote
        with engine_errors():
            await outside(submit, self._client, ticket, generation)

    def abandon(self, ticket: str) -> None:
        """Ends a request that nobody waits for any more."""
        outside(self._coordinator.abandon.remote, ticket)

    def stop(self, request: str) -> None:
        """Ends a request whose text is complete."""
        outside(self._coordinator.stop.remote, request)


def _goes_on(chunk: TokenChunk | EngineError) -> bool:
    return isinstance(chunk, TokenChunk) and chunk.finish_reason is None
