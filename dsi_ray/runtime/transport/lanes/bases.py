"""Paths on a lane: each task's as what its server lacks, so that its size is not the context's.

Frames of a lane arrive, and in order: what was sent is known there. Both ends keep the last path
of each request until it is released.
"""

from dsi_ray.core.messages import Mode, ServerId, Task
from dsi_ray.core.path import Path
from dsi_ray.models.base import Sampling
from dsi_ray.runtime.transport.lanes.frames import Begin, pack_ids, unpack_ids

Assignment = tuple[Task, Mode, Sampling]
"""A task, how it meets what its server does, and how its request's tokens are chosen."""


class SentPaths:
    """The coordinator's end."""

    def __init__(self) -> None:
        self._last: dict[str, Path] = {}

    def begin(self, task: Task, mode: Mode, sampling: Sampling) -> Begin:
        """A task as it travels."""
        path = task.tokens
        last = self._last.get(task.request)
        base = 0 if last is None else last.common(path)
        self._last[task.request] = path
        return Begin(
            task.id,
            task.request,
            mode,
            base,
            path.upto(base).digest if base else 0,
            pack_ids(path[base:]),
            task.start,
            task.limit,
            task.stops,
            task.report,
            task.proposals,
            sampling if last is None else None,
        )

    def forget(self, request: str) -> None:
        """The next task of the request travels whole."""
        self._last.pop(request, None)


class ReceivedPaths:
    """A server's end.

    Args:
        server: Whose tasks these are.
    """

    def __init__(self, server: ServerId) -> None:
        self._server = server
        self._last: dict[str, tuple[Path, Sampling]] = {}

    def task(self, begin: Begin) -> Assignment | None:
        """The task as it was meant; None if its base is not here.

        Raises:
            FrameError: Its path is none.
        """
        known, sampling = self._last.get(begin.request, (Path.of(()), begin.sampling))
        base = known.upto(min(begin.base, len(known)))
        sampling = begin.sampling or sampling
        if sampling is None or (begin.base and base.digest != begin.digest):
            return None
        tokens = base.extended(unpack_ids(begin.rest))
        self._last[begin.request] = tokens, sampling
        task = Task(
            begin.task,
            begin.request,
            self._server,
            tokens,
            begin.start,
            begin.limit,
            begin.stops,
            begin.report,
            begin.proposals,
        )
        return task, begin.mode, sampling

    def forget(self, request: str) -> None:
        """The request has ended."""
        self._last.pop(request, None)
