"""Clients: the processes that send a coordinator requests, over lanes or by actor calls."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable

from dsi_ray.runtime.coordinator.in_flight import Deliver
from dsi_ray.runtime.process.background import Background
from dsi_ray.runtime.request import Generation
from dsi_ray.runtime.transport.calls.lease import Lease, ended
from dsi_ray.runtime.transport.calls.listeners import Listeners
from dsi_ray.runtime.transport.lanes.lane import Lane
from dsi_ray.runtime.transport.lanes.served_client import ServedClient

_SWEEP_S = 10.0
"""How long a client that sends calls may be without a stream."""


class Clients:
    """Hands on what clients want, and to them what their requests get.

    Args:
        begin: Begins a request; what it gets goes to the second argument.
        leave: Ends a request that nobody waits for any more.
        stop: Ends a request whose text is complete.
    """

    def __init__(
        self,
        begin: Callable[[Generation, Deliver], None],
        leave: Callable[[str], None],
        stop: Callable[[str], None],
    ) -> None:
        self._begin, self._leave, self._stop = begin, leave, stop
        self._listeners = Listeners()
        self._background = Background()

    def attach(self, connection: socket.socket) -> Lane:
        """Takes the lane of a client, with which its requests end."""
        return ServedClient(connection, self._begin, self._leave, self._stop).lane

    def submit(self, client: str, ticket: str, generation: Generation) -> None:
        """Begins a request that came by a call; what it gets goes into its client's stream."""
        deliver = self._listeners.submit(client, ticket, generation.id)
        if deliver is not None:
            self._begin(generation, deliver)

    def abandon(self, ticket: str) -> None:
        """Ends a request that came by a call, or will when it comes."""
        request = self._listeners.abandon(ticket)
        if request is not None:
            self._leave(request)

    async def outputs(self, client: str, life: Lease) -> AsyncIterator[bytes]:
        """Yields what the requests of a client get. Closing it, or the client's end, ends them."""
        outbox = self._listeners.stream(client)
        end = self._background.start(ended(life))
        end.add_done_callback(lambda _: outbox.close())
        try:
            async for item in outbox.stream():
                yield item
        finally:
            end.cancel()
            for request in self._listeners.leave(client):
                self._leave(request)

    async def sweep(self) -> None:
        """Ends, every now and then, the requests of clients without a stream."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            for request in self._listeners.sweep():
                self._leave(request)
