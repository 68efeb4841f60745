"""Only who knows the key of a lane gets one, whoever else connects."""

import asyncio
import secrets
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dsi_ray.runtime.transport.lanes import handshake
from dsi_ray.runtime.transport.lanes.handshake import Address, Door, HandshakeRefused


def _of_version(hello: bytes, version: int) -> bytes:
    magic, _, nonce = handshake._HELLO.unpack(hello)
    return handshake._HELLO.pack(magic, version, nonce)


DOORS = [Door.on_this_node, lambda: Door.on_network("127.0.0.1", [0])]


async def admitted(door: Door, key: bytes) -> tuple[socket.socket, socket.socket]:
    return await asyncio.gather(door.admit(key), door.address.connect(key))


async def exchange(one: socket.socket, two: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    for sender, receiver in ((one, two), (two, one)):
        await loop.sock_sendall(sender, b"hello")
        assert await loop.sock_recv(receiver, 5) == b"hello"
    one.close()
    two.close()


async def connect(address: Address) -> socket.socket:
    stranger = socket.socket(socket.AF_UNIX if address.path else socket.AF_INET)
    stranger.setblocking(False)
    where = address.path or (address.host, address.port)
    await asyncio.get_running_loop().sock_connect(stranger, where)
    return stranger


@pytest.mark.parametrize("make", DOORS)
def test_both_ends_of_one_key_meet_and_nothing_is_left(make: Callable[[], Door]) -> None:
    async def run() -> None:
        door, key = make(), secrets.token_bytes(32)
        await exchange(*await admitted(door, key))
        door.close()
        if door.address.path:
            assert not Path(door.address.path).parent.exists()
        with pytest.raises(OSError):
            await door.address.connect(key)

    asyncio.run(run())


def test_a_socket_on_the_node_is_in_a_folder_that_only_the_user_can_enter() -> None:
    async def run() -> None:
        door = Door.on_this_node()
        mode = stat.S_IMODE(Path(door.address.path).parent.stat().st_mode)
        door.close()
        assert mode == 0o700

    asyncio.run(run())


async def _says_nothing(address: Address) -> object:
    return await connect(address)


async def _talks_nonsense(address: Address) -> object:
    stranger = await connect(address)
    await asyncio.get_running_loop().sock_sendall(stranger, b"GET / HTTP/1.1\r\n\r\n" * 10)
    return stranger


async def _leaves(address: Address) -> object:
    (await connect(address)).close()
    return None


async def _guesses(address: Address) -> object:
    with pytest.raises(HandshakeRefused):
        await address.connect(secrets.token_bytes(32))
    return None


@pytest.mark.parametrize("make", DOORS)
@pytest.mark.parametrize("stranger", [_says_nothing, _talks_nonsense, _leaves, _guesses])
def test_strangers_get_nowhere_and_keep_nobody_out(
    make: Callable[[], Door], stranger: Callable[[Address], Awaitable[object]]
) -> None:
    async def run() -> None:
        door, key = make(), secrets.token_bytes(32)
        opening = asyncio.ensure_future(door.admit(key))
        kept = await stranger(door.address)
        ours = await door.address.connect(key)
        await exchange(await opening, ours)
        door.close()
        if isinstance(kept, socket.socket):
            kept.close()

    asyncio.run(run())


def test_a_crowd_of_strangers_takes_no_more_than_its_places() -> None:
    async def run() -> None:
        door, key = Door.on_network("127.0.0.1", [0]), secrets.token_bytes(32)
        opening = asyncio.ensure_future(door.admit(key))
        crowd = [await connect(door.address) for _ in range(2 * handshake._STRANGERS)]
        loop = asyncio.get_running_loop()
        for stranger in crowd[: handshake._STRANGERS]:
            while await loop.sock_recv(stranger, 100):
                pass
        await exchange(await door.address.connect(key), await opening)
        for stranger in crowd:
            stranger.close()
        door.close()

    asyncio.run(run())


def test_a_caller_of_another_version_is_refused() -> None:
    async def run() -> None:
        door, key = Door.on_this_node(), secrets.token_bytes(32)
        opening = asyncio.ensure_future(door.admit(key))
        stranger = await connect(door.address)
        loop = asyncio.get_running_loop()
        hello = await loop.sock_recv(stranger, handshake._HELLO.size)
        await loop.sock_sendall(stranger, _of_version(hello, handshake.VERSION + 1))
        assert await loop.sock_recv(stranger, 100) == b""
        stranger.close()
        await exchange(await door.address.connect(key), await opening)
        door.close()

    asyncio.run(run())


HELLO = handshake._HELLO.pack(handshake._MAGIC, handshake.VERSION, bytes(16))


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (b"", "closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n" * 3, "speaks no lane"),
        (HELLO + bytes(32), "does not know the lane's key"),
        (_of_version(HELLO, handshake.VERSION + 1), "run one release of dsi-ray on all nodes"),
    ],
)
def test_a_caller_finds_out_an_impostor_or_another_version(words: bytes, error: str) -> None:
    async def run() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        loop = asyncio.get_running_loop()
        port = listener.getsockname()[1]
        caller = Address(host="127.0.0.1", port=port).connect(secrets.token_bytes(32))
        connecting = asyncio.ensure_future(caller)
        connection, _ = await loop.sock_accept(listener)
        await loop.sock_sendall(connection, words)
        connection.shutdown(socket.SHUT_WR)
        with pytest.raises(HandshakeRefused, match=error):
            await connecting
        connection.close()
        listener.close()

    asyncio.run(run())


def test_a_range_of_ports_is_kept_to_and_its_end_is_said() -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    with pytest.raises(OSError, match="none of the lane ports"):
        Door.on_network("127.0.0.1", [port])
    door = Door.on_network("127.0.0.1", [port, 0])
    assert door.address.port not in (0, port)
    door.close()
    taken.close()
