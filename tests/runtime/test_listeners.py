"""Nothing runs for nobody: requests, abandons and streams' ends in hostile orders, without Ray."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.core.messages import FinishReason
from dsi_ray.runtime.coordinator import clients
from dsi_ray.runtime.coordinator.in_flight import Deliver
from dsi_ray.runtime.request import TokenChunk
from dsi_ray.runtime.transport.calls.listeners import EARLY, Listeners

from .lonely import Client, generation, lonely_coordinator, until, until_well

CLIENTS = ["one", "two"]
TICKETS = {client: [f"{client}-{number}" for number in range(3)] for client in CLIENTS}
LAST = TokenChunk((), FinishReason.LENGTH)

Call = tuple[str, str, str]
"""What is called, the client and the ticket."""

CALLS: list[Call] = [("sweep", "", "")]
CALLS += [(call, client, "") for client in CLIENTS for call in ("stream", "end")]
CALLS += [
    (call, client, ticket)
    for client, tickets in TICKETS.items()
    for ticket in tickets
    for call in ("submit", "abandon", "finish")
]


@given(st.lists(st.sampled_from(CALLS), unique=True).flatmap(st.permutations))
def test_what_runs_has_a_listener_in_every_order(calls: Sequence[Call]) -> None:
    listeners = Listeners()
    running: dict[str, Deliver] = {}
    streams: set[str] = set()
    abandoned: set[str] = set()

    def end(requests: Sequence[str]) -> None:
        for request in requests:
            # Of nobody else's, and none twice.
            del running[request]

    for call, client, ticket in calls:
        match call:
            case "submit":
                deliver = listeners.submit(client, ticket, ticket)
                assert (deliver is None) == (ticket in abandoned)
                if deliver is not None:
                    running[ticket] = deliver
            case "abandon":
                abandoned.add(ticket)
                request = listeners.abandon(ticket)
                end([] if request is None else [request])
            case "finish" if ticket in running:
                running.pop(ticket)(LAST)
            case "stream" if ("end", client, "") not in calls[: calls.index((call, client, ""))]:
                listeners.stream(client)
                streams.add(client)
            case "end" if client in streams:
                streams.remove(client)
                end(listeners.leave(client))
            case "sweep":
                end(listeners.sweep())

    end(listeners.sweep() + listeners.sweep())
    assert not abandoned & running.keys()
    assert {ticket.partition("-")[0] for ticket in running} <= streams


def test_what_was_abandoned_last_is_remembered_longest() -> None:
    listeners = Listeners()
    for number in range(EARLY + 1):
        assert listeners.abandon(str(number)) is None
    assert listeners.submit("client", "0", "oldest") is not None
    assert listeners.submit("client", str(EARLY), "newest") is None


def test_a_late_abandon_does_not_end_the_next_request_of_that_name() -> None:
    listeners = Listeners()
    first = listeners.submit("client", "first", "name")
    assert first is not None
    first(LAST)
    assert listeners.abandon("first") is None
    assert listeners.submit("client", "second", "name") is not None


@pytest.fixture
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps often."""
    monkeypatch.setattr(clients, "_SWEEP_S", 0.01)


@pytest.mark.parametrize(
    "order",
    [
        ("abandon", "submit", "stream"),
        ("submit", "abandon", "stream"),
        ("submit", "stream", "die"),
        ("stream", "die", "submit"),
        ("submit",),
    ],
    ids="-".join,
)
def test_the_group_computes_nothing_for_nobody(_often: None, order: Sequence[str]) -> None:
    async def scenario() -> None:
        group = await lonely_coordinator()
        client: Client | None = None
        for call in order:
            match call:
                case "submit":
                    await group.submit("client", "ticket", generation(100_000))
                case "abandon":
                    await group.abandon("ticket")
                case "stream":
                    client = Client(group)
                case "die" if client is not None:
                    client.die()
                    await client.reader
        await until_well(group)

    asyncio.run(scenario())


def test_a_cancelled_call_leaves_nothing() -> None:
    async def scenario() -> None:
        group = await lonely_coordinator()
        call = asyncio.create_task(group.complete(generation(100_000)))
        await until(group.status, lambda status: status["tasks"] > 0)
        call.cancel()
        await asyncio.wait([call])
        await until_well(group)

    asyncio.run(scenario())
