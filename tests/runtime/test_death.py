"""Death is loud: with a fault anywhere in it a group ends, or goes on in health."""

import asyncio
import contextlib
import enum
import inspect
import multiprocessing
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dsi_ray.core.decoders.base import Decoder
from dsi_ray.core.group.group import Group
from dsi_ray.core.messages import Role, ServerId
from dsi_ray.core.server.scheduler import Scheduler
from dsi_ray.core.tree import TokenTree
from dsi_ray.models.simulated import SimulatedModel
from dsi_ray.runtime.coordinator import clients
from dsi_ray.runtime.coordinator import hang_watch as watchman
from dsi_ray.runtime.coordinator.books import Books
from dsi_ray.runtime.coordinator.coordinator import Coordinator
from dsi_ray.runtime.coordinator.in_flight import InFlightRequest
from dsi_ray.runtime.coordinator.outgoing import Outgoing
from dsi_ray.runtime.coordinator.servers import LocalServer
from dsi_ray.runtime.metrics import ray_export
from dsi_ray.runtime.metrics.group import GroupMetrics
from dsi_ray.runtime.metrics.ray_export import RayExporter
from dsi_ray.runtime.server.forward_loop import ForwardLoop
from dsi_ray.runtime.server.model_server import ModelServer
from dsi_ray.runtime.trace.record import RequestTrace
from dsi_ray.runtime.transport.calls.listeners import Listeners
from dsi_ray.runtime.transport.calls.outbox import Outbox
from dsi_ray.runtime.transport.lanes.bases import ReceivedPaths, SentPaths
from dsi_ray.runtime.transport.lanes.lane import Lane
from dsi_ray.runtime.transport.lanes.served_lane import ServedLane
from dsi_ray.runtime.transport.lanes.work_lane import WorkLane

from .lonely import (
    Client,
    MortalLaneServer,
    Mortals,
    MortalServer,
    generation,
    lonely_coordinator,
    until_well,
)

CLASSES: list[type] = [
    *(
        Coordinator,
        Listeners,
        Outbox,
        Outgoing,
        InFlightRequest,
        GroupMetrics,
        RayExporter,
        RequestTrace,
    ),
    *(LocalServer, ModelServer, ForwardLoop, SimulatedModel),
    *(WorkLane, ServedLane, Lane, SentPaths, ReceivedPaths),
    *(Group, Decoder, TokenTree, Scheduler),
]

INSIDE = {LocalServer}
"""What only groups use whose servers are in the coordinator's process."""

FATAL = [
    (Coordinator, "_send"),
    (Coordinator, "_whose"),
    (Books, "hear"),
    (Books, "say"),
    (Coordinator, "_start_again"),
    (Coordinator, "status"),
    (Listeners, "sweep"),
    (Outgoing, "send"),
    (InFlightRequest, "emit"),
    (RayExporter, "export"),
    (RequestTrace, "hear"),
    (LocalServer, "send"),
    (LocalServer, "_hear"),
    (WorkLane, "send"),
    (WorkLane, "_on_frame"),
    (ServedLane, "hear"),
    (ServedLane, "_on_frame"),
    (Lane, "_pass_on"),
    (Lane, "_fail"),
    (SentPaths, "begin"),
    (ReceivedPaths, "task"),
    (ForwardLoop, "take"),
    (ForwardLoop, "_work"),
    (ForwardLoop, "_compute"),
    (SimulatedModel, "cached"),
    (Group, "admit"),
    (Group, "leave"),
    (Group, "overdue"),
    (TokenTree, "advance"),
    (Group, "lose"),
    (Group, "restore"),
    (GroupMetrics, "lost"),
    (Scheduler, "finish"),
]
"""Where a stray exception has been, or could be, the end of all news of a request or a server."""

_SPAWN = multiprocessing.get_context("forkserver")
_SPAWN.set_forkserver_preload([__name__])


class Ending(enum.IntEnum):
    """How the process ended in which a fault was injected: its exit status."""

    HEALTHY = 0
    DEAD = 1
    TEST_FAILED = 2
    HUNG = 3


def methods(owner: type) -> Iterator[str]:
    """The names of a class's own methods and properties, decorated ones left out.

    A fault would be outside of what decorates them; those that they call have faults too.
    """
    for name, member in vars(owner).items():
        is_plain = inspect.isfunction(member) and not hasattr(member, "__wrapped__")
        if not name.startswith("__") and (is_plain or isinstance(member, property)):
            yield name


class Fault:
    """Raises, once, at the first call of a method after it was armed."""

    def __init__(self, owner: type, name: str) -> None:
        self.armed = False
        member = vars(owner)[name]
        if isinstance(member, property):
            assert member.fget is not None
            setattr(owner, name, property(self._wrap(member.fget)))
        else:
            setattr(owner, name, self._wrap(member))

    def _wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.armed:
                self.armed = False
                raise RuntimeError("a stray exception")
            return function(*args, **kwargs)

        return call


async def live_through(fault: Fault, kind: type[MortalServer]) -> None:
    """A fault occurs amid requests; fails unless others are served afterwards as before."""
    servers = Mortals(pytest.MonkeyPatch(), kind)
    group = await lonely_coordinator()
    expected = (await group.complete(generation())).tokens
    client = Client(group)
    await client.submit("read", generation())
    await client.submit("abandoned", generation(200))
    await client.submit("stopped", long := generation(200))
    await client.chunk("read", 0)
    fault.armed = True
    for role in Role:
        servers[ServerId(role, 0)].die()
    # Who calls hears of it, and of what became of his own requests.
    for call in (
        *(lambda: client.submit("late", generation()), lambda: group.abandon("abandoned")),
        *(lambda: group.stop(long.id), lambda: group.complete(generation()), group.status),
        lambda: group.trace(long.id, 0.0),
        *(lambda ticket=ticket: client.tokens(ticket) for ticket in ("read", "stopped", "late")),
    ):
        with contextlib.suppress(RuntimeError, EOFError):
            await call()
    # Longer than anything that happens now and then takes to happen again.
    await asyncio.sleep(0.05)
    fault.armed = False

    assert (await group.complete(generation())).tokens == expected
    again = Client(group, "again")
    await again.submit("ticket", generation())
    assert await again.tokens("ticket") == expected
    client.die()
    await until_well(group)


def run_in_child(owner: type, name: str) -> None:
    """Ends the process as :class:`Ending` says."""
    clients._SWEEP_S = watchman._TICK_S = ray_export.EXPORT_S = 0.01
    kind = MortalServer if owner in INSIDE else MortalLaneServer
    try:
        asyncio.run(asyncio.wait_for(live_through(Fault(owner, name), kind), 20))
    except TimeoutError:
        os._exit(Ending.HUNG)
    except BaseException:
        os._exit(Ending.TEST_FAILED)
    os._exit(Ending.HEALTHY)


def ending(owner: type, name: str) -> Ending:
    """What a fault in a method comes to."""
    child = _SPAWN.Process(target=run_in_child, args=(owner, name))
    child.start()
    child.join()
    assert child.exitcode is not None
    return Ending(child.exitcode)


@pytest.mark.parametrize("owner", CLASSES)
def test_a_group_with_a_fault_anywhere_dies_or_goes_on_in_health(owner: type) -> None:
    endings = {name: ending(owner, name) for name in methods(owner)}
    assert set(endings.values()) <= {Ending.DEAD, Ending.HEALTHY}, endings
    assert Ending.DEAD in endings.values(), endings


@pytest.mark.parametrize(("owner", "name"), FATAL)
def test_what_nobody_understands_ends_the_process(owner: type, name: str) -> None:
    assert ending(owner, name) is Ending.DEAD
