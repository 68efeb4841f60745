"""How two processes open a lane: who may, and that both mean the same.

The caller of an actor makes a key, which travels with the actor call. The actor listens for this
one lane, at an address that it answers with, and both prove that they know the key. So a stranger,
or a process that has taken a dead one's port, gets nowhere; and a restarted actor, which knows no
key of the one before, gets a new lane.
"""

import asyncio
import contextlib
import hmac
import os
import secrets
import shutil
import socket
import struct
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from dsi_ray.runtime.transport.lanes.lane import LaneEnded

VERSION = 1
"""Of the frames: both ends must have the same."""

_MAGIC = b"dsi-ray lane"
_HELLO = struct.Struct(f"!{len(_MAGIC)}sH16s")
_PROOF_BYTES = 32
_PATIENCE_S = 5.0
"""For one handshake, and for the caller to come."""

_STRANGERS = 16
"""Connections that may be in the middle of a handshake at once; the oldest makes room."""


class HandshakeRefused(LaneEnded):
    """The other end is not what it should be, or speaks another version."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where an actor listens.

    Attributes:
        path: Of a Unix socket, where both are on one node; else empty.
        host: Else the node's address.
        port: And a port there.
    """

    path: str = ""
    host: str = ""
    port: int = 0

    async def connect(self, key: bytes) -> socket.socket:
        """Opens the connection and proves to know the key.

        Raises:
            OSError: Nobody is there.
            Refused: It does not know the key, or speaks another version.
        """
        family = socket.AF_UNIX if self.path else _family(self.host)
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                where = self.path or (self.host, self.port)
                await loop.sock_connect(connection, where)
                await _introduce(connection, key)
        except BaseException:
            connection.close()
            raise
        _tune(connection)
        return connection


class Door:
    """A listening socket for one lane.

    Attributes:
        address: What the caller is told.
    """

    def __init__(self, listener: socket.socket, address: Address, folder: str = "") -> None:
        listener.setblocking(False)
        self._listener = listener
        self._folder = folder
        self.address = address

    @classmethod
    def on_this_node(cls) -> Self:
        """A Unix socket in a folder that only this user can enter."""
        folder = tempfile.mkdtemp(prefix="dsi-ray-", dir="/tmp")
        path = os.path.join(folder, "lane")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen()
        return cls(listener, Address(path=path), folder)

    @classmethod
    def on_network(cls, host: str, ports: Iterable[int]) -> Self:
        """The first free one of ``ports`` at an address of this node; 0 is any.

        Raises:
            OSError: None is free.
        """
        family = _family(host)
        for port in ports:
            try:
                listener = socket.create_server((host, port), family=family)
            except OSError:
                continue
            return cls(listener, Address(host=host, port=listener.getsockname()[1]))
        raise OSError(f"none of the lane ports is free at {host}")

    async def admit(self, key: bytes) -> socket.socket:
        """The first connection whose other end knows the key.

        Raises:
            TimeoutError: Nobody has come.
        """
        admitted: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()
        handshakes: dict[asyncio.Task[None], None] = {}
        accepting = asyncio.ensure_future(self._accept(key, admitted, handshakes))
        try:
            async with asyncio.timeout(2 * _PATIENCE_S):
                return await admitted
        finally:
            for task in (accepting, *handshakes):
                task.cancel()

    def close(self) -> None:
        """Listens no more; leaves nothing behind."""
        self._listener.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _accept(
        self,
        key: bytes,
        admitted: "asyncio.Future[socket.socket]",
        handshakes: "dict[asyncio.Task[None], None]",
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(self._listener)
            if len(handshakes) == _STRANGERS:
                # The oldest: whoever knows the key does not take long.
                next(iter(handshakes)).cancel()
            task = loop.create_task(_examine(connection, key, admitted))
            handshakes[task] = None
            task.add_done_callback(lambda task: handshakes.pop(task, None))


async def _examine(
    connection: socket.socket, key: bytes, admitted: "asyncio.Future[socket.socket]"
) -> None:
    """Takes a connection whose other end proves to know the key; closes every other."""
    connection.setblocking(False)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await _challenge(connection, key)
    except (OSError, TimeoutError):
        connection.close()
        return
    except asyncio.CancelledError:
        connection.close()
        raise
    if admitted.done():
        connection.close()
        return
    _tune(connection)
    admitted.set_result(connection)


async def _challenge(connection: socket.socket, key: bytes) -> None:
    """The listening end's part."""
    loop, own = asyncio.get_running_loop(), secrets.token_bytes(16)
    await loop.sock_sendall(connection, _HELLO.pack(_MAGIC, VERSION, own))
    theirs = _nonce(await _receive(connection, _HELLO.size))
    proof = await _receive(connection, _PROOF_BYTES)
    if not hmac.compare_digest(proof, _proof(key, b"caller", own, theirs)):
        raise HandshakeRefused("whoever connected does not know the lane's key")
    await loop.sock_sendall(connection, _proof(key, b"actor", own, theirs))


async def _introduce(connection: socket.socket, key: bytes) -> None:
    """The connecting end's part."""
    loop, own = asyncio.get_running_loop(), secrets.token_bytes(16)
    theirs = _nonce(await _receive(connection, _HELLO.size))
    hello = _HELLO.pack(_MAGIC, VERSION, own)
    await loop.sock_sendall(connection, hello + _proof(key, b"caller", theirs, own))
    if not hmac.compare_digest(
        await _receive(connection, _PROOF_BYTES), _proof(key, b"actor", theirs, own)
    ):
        raise HandshakeRefused("who listens there does not know the lane's key")


def _nonce(hello: bytes) -> bytes:
    magic, version, nonce = _HELLO.unpack(hello)
    if magic != _MAGIC:
        raise HandshakeRefused("the other end speaks no lane")
    if version != VERSION:
        raise HandshakeRefused(
            f"the other end speaks version {version} of the lanes, this one {VERSION}: "
            "run one release of dsi-ray on all nodes"
        )
    return bytes(nonce)


def _proof(key: bytes, role: bytes, listening: bytes, connecting: bytes) -> bytes:
    return hmac.digest(key, role + listening + connecting, "sha256")


async def _receive(connection: socket.socket, size: int) -> bytes:
    loop, received = asyncio.get_running_loop(), b""
    while len(received) < size:
        data = await loop.sock_recv(connection, size - len(received))
        if not data:
            raise HandshakeRefused("the other end closed the connection in the handshake")
        received += data
    return received


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _tune(connection: socket.socket) -> None:
    """No waiting for more to send; a node that vanished is noticed in 15 s."""
    if connection.family == socket.AF_UNIX:
        return
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2}.items():
        with contextlib.suppress(AttributeError):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    with contextlib.suppress(AttributeError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 15_000)
