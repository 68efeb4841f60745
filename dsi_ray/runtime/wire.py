"""What crosses a process on the critical path, as one bytes object.

Ray runs each argument and each result through cloudpickle, a third of a call's cost; bytes pass
as they are.
"""

import pickle

from dsi_ray.core.messages import Event, Mode, Task
from dsi_ray.models.base import Sampling


def pack_task(task: Task, mode: Mode, sampling: Sampling) -> bytes:
    """A call of a model server's ``extend``."""
    return pickle.dumps((task, mode, sampling), pickle.HIGHEST_PROTOCOL)


def unpack_task(data: bytes) -> tuple[Task, Mode, Sampling]:
    """The reverse of :func:`pack_task`."""
    call: tuple[Task, Mode, Sampling] = pickle.loads(data)
    return call


def pack_events(events: list[Event]) -> bytes:
    """An item of a model server's event stream."""
    return pickle.dumps(events, pickle.HIGHEST_PROTOCOL)


def unpack_events(data: bytes) -> list[Event]:
    """The reverse of :func:`pack_events`."""
    events: list[Event] = pickle.loads(data)
    return events
