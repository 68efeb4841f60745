"""Who is let in and when: bounds, order, and nothing lost, whatever comes and goes."""

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.serving.admission.fair_queue import (
    FairQueue,
    Limits,
    QueueRefusal,
    RefusalReason,
    Ticket,
)

Arrival = tuple[str, int, int]
"""A client, its generations and their tokens."""

arrivals = st.tuples(st.sampled_from("abc"), st.integers(1, 4), st.integers(0, 40))
departures = st.integers(0, 50)
histories = st.lists(st.one_of(arrivals, arrivals, departures), max_size=60)
limits = st.builds(
    Limits,
    generations=st.integers(1, 6),
    queued=st.integers(0, 6),
    per_client=st.none() | st.integers(1, 9),
    tokens=st.integers(20, 120),
)


@dataclass(eq=False)
class Stay:
    """A request as its client sees it.

    Attributes:
        ticket: What it got.
        ahead: Requests of the same client that waited when it came.
        entries: How many requests of each client have been let in since.
    """

    ticket: Ticket
    ahead: int
    entries: Counter[str]


class House:
    """Keeps its own books about a queue."""

    def __init__(self, limits: Limits) -> None:
        self.queue = FairQueue(limits)
        self.stays: list[Stay] = []

    def of(self, client: str | None = None, inside: bool | None = None) -> list[Stay]:
        """Those who are here, in the order of their arrival."""
        return [
            stay
            for stay in self.stays
            if client in (None, stay.ticket.client) and inside in (None, stay.ticket.inside)
        ]

    def arrive(self, client: str, generations: int, tokens: int) -> RefusalReason | None:
        """Sends a request; returns why it was turned away, if it was."""
        stay = Stay(
            Ticket(client, generations, tokens, lambda: self._entered(stay)),
            len(self.of(client, inside=False)),
            Counter(),
        )
        self.stays.append(stay)
        try:
            self.queue.arrive(stay.ticket)
        except QueueRefusal as refused:
            self.stays.remove(stay)
            return refused.reason
        return None

    def leave(self, stay: Stay) -> None:
        """Ends a request."""
        self.stays.remove(stay)
        self.queue.leave(stay.ticket)

    def fits(self, generations: int, tokens: int) -> bool:
        """Whether there is room."""
        inside, limits = self.of(inside=True), self.queue.limits
        return not inside or (
            sum(stay.ticket.generations for stay in inside) + generations <= limits.generations
            and sum(stay.ticket.tokens for stay in inside) + tokens <= limits.tokens
        )

    def _entered(self, stay: Stay) -> None:
        client = stay.ticket.client
        assert isinstance(client, str)
        others = (count for other, count in stay.entries.items() if other != client)
        assert max(others, default=0) <= stay.ahead + 1, "nobody else has two turns in between"
        for other in self.stays:
            other.entries[client] += 1


def check(house: House) -> None:
    """What holds at any time."""
    queue, limits = house.queue, house.queue.limits
    inside, waiting = house.of(inside=True), house.of(inside=False)
    assert queue.generations == sum(stay.ticket.generations for stay in inside)
    assert queue.tokens == sum(stay.ticket.tokens for stay in inside)
    assert queue.waiting == len(waiting) <= limits.queued
    assert queue.waiting_generations == sum(stay.ticket.generations for stay in waiting)
    if len(inside) > 1:
        assert queue.generations <= limits.generations and queue.tokens <= limits.tokens
    assert queue.clients == len({stay.ticket.client for stay in house.stays})
    for client in "abc":
        held = sum(stay.ticket.generations for stay in house.of(client))
        assert queue.held(client) == held <= (limits.per_client or held)
        states = [stay.ticket.inside for stay in house.of(client)]
        assert states == sorted(states, reverse=True), "a client's requests keep their order"
    # Whose turn it is does not fit; otherwise somebody would have been forgotten.
    first = [house.of(client, inside=False)[:1] for client in "abc"]
    heads = [stay.ticket for stays in first for stay in stays]
    assert not heads or not all(house.fits(head.generations, head.tokens) for head in heads)


def expected_refusal(
    house: House, client: str, generations: int, tokens: int
) -> RefusalReason | None:
    """Why a request has to be turned away, if it has."""
    limits, waiting = house.queue.limits, house.of(inside=False)
    held = sum(stay.ticket.generations for stay in house.of(client))
    if limits.per_client is not None and held + generations > limits.per_client:
        return RefusalReason.CLIENT_LIMIT
    must_wait = bool(waiting) or not house.fits(generations, tokens)
    return RefusalReason.QUEUE_FULL if must_wait and len(waiting) == limits.queued else None


@given(limits, histories)
def test_bounds_hold_turns_are_kept_and_nobody_is_forgotten(
    limits: Limits, history: list[Arrival | int]
) -> None:
    house = House(limits)
    for step in history:
        if isinstance(step, int):
            if house.stays:
                house.leave(house.stays[step % len(house.stays)])
        else:
            refusal = expected_refusal(house, *step)
            # Seen before the request is looked at; exact where there is no room to wait at all.
            assert not house.queue.is_full or refusal is not None
            assert house.arrive(*step) is refusal
        check(house)
    while house.stays:
        house.leave(house.stays[0])
        check(house)


@given(limits, st.lists(arrivals, max_size=30))
def test_all_that_wait_get_in_once_those_before_have_left(
    limits: Limits, requests: list[Arrival]
) -> None:
    house = House(limits)
    admitted = sum(house.arrive(*request) is None for request in requests)
    seen = 0
    while inside := house.of(inside=True):
        seen += 1
        house.leave(inside[0])
    assert (seen, house.stays) == (admitted, [])


def order(house: House, arrivals: list[Arrival]) -> list[str]:
    """In which order requests are let in when one at a time leaves."""
    for arrival in arrivals:
        assert house.arrive(*arrival) is None
    clients = []
    while inside := house.of(inside=True):
        clients.append(str(inside[0].ticket.client))
        house.leave(inside[0])
    return clients


def test_clients_take_turns() -> None:
    house = House(Limits(1, 10))
    many = [("a", 1, 1)] * 4
    assert order(house, [*many, ("b", 1, 1), ("b", 1, 1), ("c", 1, 1)]) == list("aabcaba")


def test_small_requests_do_not_overtake_a_large_one() -> None:
    house = House(Limits(3, 10))
    house.arrive("a", 2, 1)
    house.arrive("b", 3, 1)
    house.arrive("c", 1, 1)
    assert [stay.ticket.client for stay in house.of(inside=True)] == ["a"]
    house.leave(house.stays[0])
    assert [stay.ticket.client for stay in house.of(inside=True)] == ["b"]


def test_one_that_goes_away_lets_those_behind_it_in() -> None:
    house = House(Limits(3, 10))
    house.arrive("a", 2, 1)
    house.arrive("b", 3, 1)
    house.arrive("c", 1, 1)
    house.leave(house.of("b")[0])
    assert [stay.ticket.client for stay in house.of(inside=True)] == ["a", "c"]


@pytest.mark.parametrize("request_", [(10, 1), (1, 1000)])
def test_what_never_fits_gets_in_alone(request_: tuple[int, int]) -> None:
    house = House(Limits(3, 2, tokens=100))
    house.arrive("a", 1, 1)
    house.arrive("b", *request_)
    house.arrive("c", 1, 1)
    house.leave(house.of("a")[0])
    assert [stay.ticket.client for stay in house.of(inside=True)] == ["b"]
    house.leave(house.of("b")[0])
    assert [stay.ticket.client for stay in house.of(inside=True)] == ["c"]
