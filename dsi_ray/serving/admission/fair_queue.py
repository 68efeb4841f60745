"""Who is let in, and who waits in which order: no clock, no event loop.

Requests are let in whole while there is room. Where there is none they wait in one bounded queue:
each client's in the order of their arrival, and the clients in turns, so that one that sends much
delays the others by no more than a request at a time. Nobody overtakes the request whose turn it
is, however small: a large one waits only until enough of those inside have left.
"""

import sys
from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is let in, and how much may wait.

    Attributes:
        generations: Most generations inside.
        queued: Most requests that wait.
        per_client: Most generations of one client, inside and waiting; None is no limit.
        tokens: Most tokens that those inside are likely to come to hold together.
    """

    generations: int
    queued: int
    per_client: int | None = None
    tokens: int = sys.maxsize


@dataclass(eq=False, slots=True)
class Ticket:
    """A request from its arrival until it leaves.

    Attributes:
        client: Whose it is.
        generations: How many it asks for: each choice of each prompt is one.
        tokens: What they are likely to hold: prompts and outputs.
        on_entry: Called when it is let in.
        inside: Whether it has been.
    """

    client: Hashable
    generations: int
    tokens: int
    on_entry: Callable[[], None]
    inside: bool = False


class RefusalReason(StrEnum):
    """Why a request is turned away."""

    QUEUE_FULL = "queue_full"
    CLIENT_LIMIT = "client_limit"
    EXPIRED = "expired"


class QueueRefusal(Exception):
    """A request is turned away; nothing of it is kept."""

    def __init__(self, reason: RefusalReason) -> None:
        super().__init__(reason)
        self.reason = reason


class FairQueue:
    """Counts what is inside and holds what waits.

    Attributes:
        limits: Its bounds.
        generations: Inside now.
        tokens: That those inside are likely to come to hold.
        waiting: Requests that wait.
        waiting_generations: What they ask for.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.generations = 0
        self.tokens = 0
        self.waiting = 0
        self.waiting_generations = 0
        # The clients that wait, the one whose turn it is first.
        self._turns: dict[Hashable, deque[Ticket]] = {}
        self._held: Counter[Hashable] = Counter()

    @property
    def is_full(self) -> bool:
        """Whether whatever comes now is turned away."""
        return self.waiting > 0 and self.waiting >= self.limits.queued

    @property
    def clients(self) -> int:
        """How many clients have something here."""
        return len(self._held)

    def held(self, client: Hashable) -> int:
        """How many generations of a client are inside or wait."""
        return self._held[client]

    def arrive(self, ticket: Ticket) -> None:
        """Lets a request in, or has it wait.

        Raises:
            Refused: Too much waits already, or the client has too much here.
        """
        limit = self.limits.per_client
        if limit is not None and self._held[ticket.client] + ticket.generations > limit:
            raise QueueRefusal(RefusalReason.CLIENT_LIMIT)
        must_wait = self.waiting > 0 or not self._fits(ticket)
        if must_wait and self.waiting >= self.limits.queued:
            raise QueueRefusal(RefusalReason.QUEUE_FULL)
        self._held[ticket.client] += ticket.generations
        if must_wait:
            self._turns.setdefault(ticket.client, deque()).append(ticket)
            self.waiting += 1
            self.waiting_generations += ticket.generations
        else:
            self._let_in(ticket)

    def leave(self, ticket: Ticket) -> None:
        """Ends a request that is inside or waits, and lets in whom that makes room for."""
        self._held[ticket.client] -= ticket.generations
        if not self._held[ticket.client]:
            del self._held[ticket.client]
        if ticket.inside:
            self.generations -= ticket.generations
            self.tokens -= ticket.tokens
        else:
            self._turns[ticket.client].remove(ticket)
            self._stop_waiting(ticket)
        self._admit()

    def _admit(self) -> None:
        while self._turns:
            client, tickets = next(iter(self._turns.items()))
            if not self._fits(tickets[0]):
                return
            ticket = tickets.popleft()
            # Its next turn comes after everybody else's.
            self._turns[client] = self._turns.pop(client)
            self._stop_waiting(ticket)
            self._let_in(ticket)

    def _stop_waiting(self, ticket: Ticket) -> None:
        if not self._turns[ticket.client]:
            del self._turns[ticket.client]
        self.waiting -= 1
        self.waiting_generations -= ticket.generations

    def _fits(self, ticket: Ticket) -> bool:
        """A request larger than the limits gets in when it is alone: it would otherwise never."""
        return not self.generations or (
            self.generations + ticket.generations <= self.limits.generations
            and self.tokens + ticket.tokens <= self.limits.tokens
        )

    def _let_in(self, ticket: Ticket) -> None:
        self.generations += ticket.generations
        self.tokens += ticket.tokens
        ticket.inside = True
        ticket.on_entry()
