"""What a group is given to decode, and what it knows of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dsi_ray.core.blame import Blame
from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import Decoder, Request
from dsi_ray.core.messages import Command, ServerId
from dsi_ray.core.planner import Pace


class JobError(ValueError):
    """A job that cannot be admitted; nothing has changed for it or for others."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a caller wants decoded.

    Attributes:
        id: Unique among the requests in flight.
        prompt: At least one token id.
        criteria: When the text ends.
        sp_degree: Most target servers at once.
        decoder: Makes the decoder for a request with its servers.
        drafted: Whether it uses drafters.
        adapts: Whether its plan follows what is measured.
        rejection: Whether drafts are verified by rejection sampling.
    """

    id: str
    prompt: Sequence[int]
    criteria: StopCriteria
    sp_degree: int
    decoder: Callable[[Request, Pace], Decoder]
    drafted: bool = True
    adapts: bool = True
    rejection: bool = False


@dataclass(slots=True, eq=False)
class Member:
    """A request of the group.

    Attributes:
        job: As it came.
        decoder: Decodes it.
        known: The servers that know of it.
        blame: The servers that died over it.
        planned_on: When its plan was made: how many requests shared its server, how many servers it
            had, and how many of its drafts were judged.
    """

    job: Job
    decoder: Decoder
    known: set[ServerId] = field(default_factory=set)
    blame: Blame = field(default_factory=Blame)
    planned_on: tuple[int, int, int] | None = None


Said = tuple[Member, Command]
"""A command and whose it is."""
