"""What crosses a process on the critical path, as one bytes object.

Ray runs each argument and each result through cloudpickle, a third of a call's cost; bytes pass
as they are.
"""

import pickle
from dataclasses import dataclass, field

from dsi_ray.core.messages import Event, Mode, Task
from dsi_ray.models.base import Sampling


@dataclass(slots=True)
class Work:
    """All that the coordinator has for one server at one moment: one call.

    Attributes:
        starts: Tasks to run, in order, each with how its request's tokens are chosen.
        cancels: Tasks that nobody needs any more, with their requests; after the starts.
        releases: Requests whose tasks have ended.
    """

    starts: list[tuple[Task, Mode, Sampling]] = field(default_factory=list)
    cancels: list[tuple[str, int]] = field(default_factory=list)
    releases: list[str] = field(default_factory=list)

    @property
    def requests(self) -> set[str]:
        """Whom it concerns."""
        started = (task.request for task, _, _ in self.starts)
        return {*started, *(request for request, _ in self.cancels), *self.releases}


def pack_work(work: Work) -> bytes:
    """A call of a model server."""
    return pickle.dumps(work, pickle.HIGHEST_PROTOCOL)


def unpack_work(data: bytes) -> Work:
    """The reverse of :func:`pack_work`."""
    work: Work = pickle.loads(data)
    return work


def pack_events(events: list[Event]) -> bytes:
    """An item of a model server's event stream."""
    return pickle.dumps(events, pickle.HIGHEST_PROTOCOL)


def unpack_events(data: bytes) -> list[Event]:
    """The reverse of :func:`pack_events`."""
    events: list[Event] = pickle.loads(data)
    return events
