"""Groups that this process hosts."""

import contextlib
from collections.abc import Iterator

from dsi_ray.config import EngineConfig
from dsi_ray.runtime.client.groups import Groups
from dsi_ray.runtime.ray.cluster import connect, disconnect
from dsi_ray.runtime.supervisor.group_supervisor import GroupSupervisor


@contextlib.contextmanager
def hosted(config: EngineConfig) -> Iterator[Groups]:
    """Groups for the length of a ``with`` block, on a Ray of their own if there is none.

    Raises what :class:`GroupSupervisor` does.
    """
    owns_ray = connect(config.address)
    try:
        with contextlib.closing(GroupSupervisor(config)) as keeper:
            groups = Groups(keeper.roster)
            keeper.subscribe(groups.update)
            yield groups
    finally:
        if owns_ray:
            disconnect()
