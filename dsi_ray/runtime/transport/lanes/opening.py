"""The actor call that opens a lane, and whose object ref is the lane's life.

It answers with the address at which the actor listens, and then runs as long as the lane lives:
who holds its ref hears of the actor's death, and ``ray.cancel`` of the ref ends the lane.
"""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import ray

from dsi_ray.runtime.ray.outside import outside
from dsi_ray.runtime.transport.lanes.handshake import Address, Door
from dsi_ray.runtime.transport.lanes.lane import Lane, LaneEnded


@dataclass(frozen=True, slots=True)
class Offer:
    """What the caller says in the actor call.

    Attributes:
        key: Of this one lane.
        node: Ray's id of the caller's node.
        ports: Of the actor's node, to listen at where the caller is on another; 0 is any.
    """

    key: bytes
    node: str
    ports: tuple[int, ...] = (0,)


async def host_lane(
    offer: Offer, attach: Callable[[socket.socket], Lane]
) -> AsyncIterator[Address]:
    """The body of that call: yields the address, then runs until the lane ends.

    Args:
        offer: The caller's.
        attach: Makes the lane of the connection.

    Raises:
        TimeoutError: The caller did not come.
    """
    if offer.node == _node():
        door = Door.on_this_node()
    else:
        door = Door.on_network(ray.util.get_node_ip_address(), offer.ports)
    try:
        yield door.address
        connection = await door.admit(offer.key)
    finally:
        door.close()
    lane = attach(connection)
    try:
        await asyncio.shield(lane.end)
    finally:
        lane.close()


class OpenLane:
    """The caller's end: a connection, and the call that holds it open.

    Attributes:
        connection: Nobody's yet.
    """

    def __init__(self, connection: socket.socket, call: Any) -> None:
        self.connection = connection
        self._call = call

    async def actor_died(self) -> bool:
        """Waits for the end of the call, which follows the lane's; whether the actor is dead."""
        try:
            async for ref in self._call:
                await ref
        except ray.exceptions.RayActorError:
            return True
        except ray.exceptions.RayError:
            return False
        return False


async def open_lane(method: Any, ports: tuple[int, ...]) -> OpenLane:
    """Opens a lane to an actor.

    Args:
        method: Of the actor: an async generator method that takes an :class:`Offer`.
        ports: See :class:`Offer`.

    Raises:
        LaneEnded: No connection can be made.
        RayActorError: The actor died.
    """
    offer = Offer(secrets.token_bytes(32), _node(), ports)
    # Nobody's: it lives as long as the lane does.
    call = outside(method.options(num_returns="streaming").remote, offer)
    try:
        address: Address = await (await anext(call))
        return OpenLane(await address.connect(offer.key), call)
    except (OSError, TimeoutError) as error:
        ray.cancel(call)
        raise LaneEnded(f"no lane can be opened: {error}") from error


def _node() -> str:
    return str(ray.get_runtime_context().get_node_id())
