"""Roster: which groups there are, for those who send them requests."""

from dataclasses import dataclass
from typing import Any

from dsi_ray.runtime.group_info import GroupInfo


@dataclass(frozen=True, slots=True)
class Standing:
    """One group.

    Attributes:
        coordinator: Its actor.
        error: Why it serves nothing now; None if it does.
        rebuilds: How often another was built in its place.
    """

    coordinator: Any
    error: str | None = None
    rebuilds: int = 0


@dataclass(frozen=True, slots=True)
class GroupDirectory:
    """All groups of an engine, alike, by index.

    Attributes:
        info: Facts about each of them.
        groups: How each stands.
    """

    info: GroupInfo
    groups: tuple[Standing, ...]
