"""Listeners: who gets what the requests of a coordinator yield, and which of them nobody gets."""

from dsi_ray.runtime.coordinator.in_flight import Deliver
from dsi_ray.runtime.errors import EngineError
from dsi_ray.runtime.request import TokenChunk
from dsi_ray.runtime.transport.calls.outbox import Outbox

EARLY = 4096
"""Tickets that are remembered because they were abandoned before they came."""


class Listeners:
    """The outboxes of all clients, and the requests that will put more into them.

    Calls need not keep their order: a request may come after it was abandoned, or before its
    client's stream begins, or after that has ended. A ticket stands for one submission; the id
    of a request may be used again when the request is over.
    """

    def __init__(self) -> None:
        self._outboxes: dict[str, Outbox] = {}
        self._streams: set[str] = set()
        self._unheard: set[str] = set()
        """Clients that had no stream at the last sweep."""
        self._open: dict[str, tuple[str, str]] = {}
        """By ticket: the client and the request."""
        self._early: dict[str, None] = {}

    def submit(self, client: str, ticket: str, request: str) -> Deliver | None:
        """Where to put what a request gets; None if it was abandoned before it came."""
        if ticket in self._early:
            del self._early[ticket]
            return None
        put = self._outboxes.setdefault(client, Outbox()).put
        self._open[ticket] = client, request

        def deliver(chunk: TokenChunk | EngineError) -> None:
            if isinstance(chunk, EngineError) or chunk.finish_reason is not None:
                self._open.pop(ticket, None)
            put(ticket, chunk)

        return deliver

    def abandon(self, ticket: str) -> str | None:
        """Nobody waits for a submission any more; returns its request, if that is in flight."""
        if ticket in self._open:
            _, request = self._open.pop(ticket)
            return request
        # It has not come, or it is over: then no other will have this ticket.
        self._early[ticket] = None
        if len(self._early) > EARLY:
            del self._early[next(iter(self._early))]
        return None

    def stream(self, client: str) -> Outbox:
        """The outbox of a client, whose stream begins."""
        self._streams.add(client)
        return self._outboxes.setdefault(client, Outbox())

    def leave(self, client: str) -> list[str]:
        """A client's stream has ended; returns the requests that ran for it."""
        self._streams.discard(client)
        self._outboxes.pop(client, None)
        tickets = [ticket for ticket, (whose, _) in self._open.items() if whose == client]
        return [self._open.pop(ticket)[1] for ticket in tickets]

    def sweep(self) -> list[str]:
        """Forgets the clients that have had no stream since the last time; returns their requests.

        Their streams have ended, or will never begin.
        """
        unheard = self._outboxes.keys() - self._streams
        gone, self._unheard = unheard & self._unheard, unheard
        return [request for client in gone for request in self.leave(client)]
