"""A lane carries frames whole and in order, blocks nobody, and ends for a reason that it tells."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsi_ray.runtime.transport.lanes import lane as lanes
from dsi_ray.runtime.transport.lanes.lane import FrameError, Lane, LaneEnded

Frames = list[bytes]


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "little") + payload


def with_lane(test: Callable[[Lane, socket.socket, Frames], Awaitable[None]]) -> None:
    """Runs ``test`` with a lane, the other end of its connection and the frames that it got."""

    async def run() -> None:
        ours, theirs = socket.socketpair()
        frames: Frames = []
        lane = Lane(ours, frames.append)
        theirs.setblocking(False)
        try:
            async with asyncio.timeout(30):
                await test(lane, theirs, frames)
        finally:
            lane.close()
            await lane.end
            theirs.close()

    asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    """Lets the event loop turn, which is what a lane needs, until it has done its part."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)


@given(st.lists(st.binary(max_size=300), max_size=8), st.lists(st.integers(1, 400), min_size=1))
@settings(deadline=None, max_examples=50)
def test_frames_arrive_whole_and_in_order_however_the_bytes_do(
    payloads: Frames, cuts: list[int]
) -> None:
    async def test(lane: Lane, theirs: socket.socket, frames: Frames) -> None:
        data = b"".join(map(framed, payloads))
        begin = 0
        for cut in cuts:
            theirs.send(data[begin : begin + cut])
            begin += cut
            await asyncio.sleep(0)
        theirs.send(data[begin:])
        await until(lambda: len(frames) == len(payloads))
        assert frames == payloads

    with_lane(test)


def test_what_many_threads_send_arrives_whole() -> None:
    async def test(lane: Lane, theirs: socket.socket, frames: Frames) -> None:
        payloads = [bytes([n]) * 50_000 for n in range(20)]
        senders = [threading.Thread(target=lane.send, args=(payload,)) for payload in payloads]
        for sender in senders:
            sender.start()
        got = Lane(theirs.dup(), frames.append)
        await until(lambda: len(frames) == len(payloads))
        got.close()
        assert sorted(frames) == payloads

    with_lane(test)


def test_a_reader_that_stops_blocks_nobody_and_ends_the_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lanes, "MAX_UNSENT", 2**20)

    async def test(lane: Lane, theirs: socket.socket, frames: Frames) -> None:
        sent = 0
        while not lane.end.done():
            lane.send(bytes(100_000))
            sent += 1
            await asyncio.sleep(0)
            assert sent < 100, "what waits for a reader is bounded"
        assert "nobody reads" in str(lane.end.result())

    with_lane(test)


def test_a_reader_that_goes_on_gets_all_of_it() -> None:
    async def test(lane: Lane, theirs: socket.socket, frames: Frames) -> None:
        payloads = [bytes([n]) * 300_000 for n in range(10)]
        for payload in payloads:
            lane.send(payload)
        got = Lane(theirs.dup(), frames.append)
        await until(lambda: len(frames) == len(payloads))
        got.close()
        assert frames == payloads

    with_lane(test)


def test_the_end_of_the_other_process_is_heard_after_its_last_frame() -> None:
    async def test(lane: Lane, theirs: socket.socket, frames: Frames) -> None:
        theirs.send(framed(b"last"))
        theirs.close()
        error = await lane.end
        assert frames == [b"last"]
        assert type(error) is LaneEnded and "other end" in str(error)
        lane.send(b"to nobody")

    with_lane(test)


def test_a_frame_too_large_to_be_one_ends_the_lane() -> None:
    async def test(lane: Lane, theirs: socket.socket, frames: Frames) -> None:
        theirs.send((lanes.MAX_FRAME + 1).to_bytes(4, "little"))
        assert isinstance(await lane.end, FrameError)

    with_lane(test)


def test_a_payload_too_large_to_be_read_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "MAX_FRAME", 1000)

    async def test(lane: Lane, theirs: socket.socket, frames: Frames) -> None:
        lane.send(bytes(1001))
        assert "1001 bytes" in str(await lane.end)
        assert theirs.recv(10) == b""

    with_lane(test)


def test_a_frame_that_is_not_understood_ends_the_lane_and_nothing_after_it_counts() -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        frames: Frames = []

        def refuse(payload: bytes) -> None:
            frames.append(payload)
            raise FrameError("not understood")

        lane = Lane(ours, refuse)
        theirs.send(framed(b"one") + framed(b"two"))
        assert str(await lane.end) == "not understood"
        assert frames == [b"one"]
        theirs.close()

    asyncio.run(run())


def test_a_flood_leaves_turns_to_others() -> None:
    async def test(lane: Lane, theirs: socket.socket, frames: Frames) -> None:
        flood = framed(bytes(1000)) * 200
        theirs.setblocking(True)
        stop = threading.Event()

        def pour() -> None:
            while not stop.is_set():
                theirs.sendall(flood)

        pouring = threading.Thread(target=pour)
        pouring.start()
        turns = 0
        while len(frames) < 20_000:
            await asyncio.sleep(0)
            turns += 1
        stop.set()
        await until(lambda: not pouring.is_alive())
        assert turns > len(frames) * 1000 / lanes._TURN_BYTES / 2

    with_lane(test)
