"""Lanes of a whole group: what comes on one that should not ends it, and nobody else notices."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from dsi_ray.core.messages import Ended, EndReason, Event, Output, Role, ServerId
from dsi_ray.runtime.transport.lanes.frames import (
    Abandon,
    Deliveries,
    EventsFrame,
    FromCoordinator,
    Submit,
    Unknown,
    pack,
    pack_ids,
    unpack,
    unpacker,
)
from dsi_ray.runtime.transport.lanes.lane import Lane, LaneEnded

from .lonely import MortalLaneServer, Mortals, generation, lonely_coordinator, until_well

VICTIMS = [ServerId(Role.TARGET, 0), ServerId(Role.DRAFTER, 0)]


def nonsense(lane: Lane) -> None:
    lane.send(b"GET / HTTP/1.1")


def too_large(lane: Lane) -> None:
    lane._socket.send(b"\xff\xff\xff\xff")


def cut(lane: Lane) -> None:
    lane.close()


@pytest.mark.parametrize("victim", VICTIMS, ids=str)
@pytest.mark.parametrize("harm", [nonsense, too_large, cut])
def test_a_server_whose_lane_breaks_is_replaced_and_texts_go_on(
    monkeypatch: pytest.MonkeyPatch, victim: ServerId, harm: Callable[[Lane], None]
) -> None:
    async def scenario() -> None:
        servers = Mortals(monkeypatch, MortalLaneServer)
        group = await lonely_coordinator()
        expected = (await group.complete(generation(60))).tokens
        texts = [asyncio.create_task(group.complete(generation(60))) for _ in range(4)]
        await asyncio.sleep(0)
        before = servers[victim]
        assert isinstance(before, MortalLaneServer)
        harm(before.lane)
        assert [(await text).tokens for text in texts] == [expected] * 4
        status = await until_well(group)
        assert servers[victim] is not before
        assert status["restarts"] == 1
        await servers.end()

    asyncio.run(scenario())


def test_a_flood_of_news_of_nothing_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        servers = Mortals(monkeypatch, MortalLaneServer)
        group = await lonely_coordinator()
        expected = (await group.complete(generation())).tokens
        flooding = servers[VICTIMS[0]]
        assert isinstance(flooding, MortalLaneServer)
        news: list[Event] = [Output(10**9, 0, (1,), True), Ended(10**9 + 1, EndReason.DONE)]
        pairs = [(e, None) if isinstance(e, Output) else (None, e) for e in news * 500]
        for frame in (EventsFrame(pairs), Unknown(list(range(10**9, 10**9 + 1000)))):
            for _ in range(200):
                flooding.lane.send(pack(frame))
        assert (await group.complete(generation())).tokens == expected
        assert (await until_well(group))["restarts"] == 0
        await servers.end()

    asyncio.run(scenario())


class LaneClient:
    """A client's end of a lane, by hand."""

    def __init__(self, connection: socket.socket) -> None:
        self.tokens: dict[str, tuple[int, ...]] = {}
        self.finished: dict[str, asyncio.Event] = {}
        self.lane = Lane(connection, self._on_frame)

    def submit(self, ticket: str, max_tokens: int) -> None:
        request = generation(max_tokens)
        self.finished[ticket] = asyncio.Event()
        prompt = pack_ids(request.prompt)
        self.lane.send(
            pack(
                Submit(ticket, request.id, prompt, frozenset(), request.sampling, request.decoding)
            )
        )

    def _on_frame(self, payload: bytes) -> None:
        frame = unpack(unpacker(FromCoordinator), payload)
        assert isinstance(frame, Deliveries)
        for ticket, chunk, error in frame.items:
            assert error is None and chunk is not None
            self.tokens[ticket] = self.tokens.get(ticket, ()) + chunk.tokens
            if chunk.finish_reason is not None:
                self.finished[ticket].set()


def leaves(client: LaneClient) -> None:
    client.lane.close()


def breaks_the_rules(client: LaneClient) -> None:
    client.lane.send(pack(Deliveries([])))


def abandons(client: LaneClient) -> None:
    client.lane.send(pack(Abandon("long")))


def abandons_at_once(client: LaneClient) -> None:
    client.submit("another", 100_000)
    client.lane.send(pack(Abandon("another")))
    client.lane.send(pack(Abandon("never submitted")))
    abandons(client)


@pytest.mark.parametrize("end", [leaves, breaks_the_rules, abandons, abandons_at_once])
def test_requests_end_with_their_client_and_other_clients_go_on(
    monkeypatch: pytest.MonkeyPatch, end: Callable[[LaneClient], None]
) -> None:
    async def scenario() -> None:
        servers = Mortals(monkeypatch, MortalLaneServer)
        group = await lonely_coordinator()
        expected = (await group.complete(generation(60))).tokens
        clients = []
        for _ in range(2):
            ours, theirs = socket.socketpair()
            served = group._clients.attach(theirs)
            clients.append(LaneClient(ours))
        clients[0].submit("long", 100_000)
        clients[1].submit("short", 60)
        end(clients[0])
        await clients[1].finished["short"].wait()
        assert clients[1].tokens["short"] == expected
        await until_well(group)
        clients[1].lane.close()
        clients[0].lane.close()
        assert isinstance(await served.end, LaneEnded)
        await servers.end()

    asyncio.run(scenario())
