"""What a group is given to decode, and what it knows of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import Decoder, Request
from dsi_ray.core.group.poison import PoisonRecord
from dsi_ray.core.messages import Command, ServerId
from dsi_ray.core.planning.performance_model import PerformanceModel


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
    decoder: Callable[[Request, PerformanceModel], Decoder]
    drafted: bool = True
    adapts: bool = True
    rejection: bool = False


@dataclass(slots=True, eq=False)
class RequestState:
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
    blame: PoisonRecord = field(default_factory=PoisonRecord)
    planned_on: tuple[int, int, int] | None = None


RoutedCommand = tuple[RequestState, Command]
"""A command and whose it is."""
