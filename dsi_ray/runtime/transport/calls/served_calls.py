"""A model server's end of actor calls: a call brings work and lasts until its tasks have ended."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from dsi_ray.core.messages import Ended, EndReason, Event, Output
from dsi_ray.runtime.process.background import call_soon
from dsi_ray.runtime.process.fatal import fatal_errors
from dsi_ray.runtime.server.forward_loop import ForwardLoop
from dsi_ray.runtime.transport.work import Work

_EARLY_CANCELS = 256


class ServedCalls:
    """The calls of one coordinator, which may overtake each other.

    Args:
        forwards: What they are to.
    """

    def __init__(self, forwards: ForwardLoop) -> None:
        self._forwards = forwards
        self._loop = asyncio.get_running_loop()
        self._ends: dict[int, asyncio.Event] = {}
        self._early: deque[int] = deque(maxlen=_EARLY_CANCELS)
        """Cancelled tasks that have not arrived: calls need not keep their order."""
        self._outbox: list[Event] = []
        self._has_events = asyncio.Event()

    async def run(self, work: Work) -> None:
        """Runs tasks, cancels others, and returns at the end of the last one that it runs.

        What they yield goes into :meth:`events`. Cancelling this call ends its tasks and stops
        their forward at the next layer.
        """
        starts = [start for start in work.starts if start[0].id not in self._early]
        ends = {task.id: asyncio.Event() for task, _, _ in starts}
        self._ends |= ends
        self._early += [task for _, task in work.cancels if task not in self._ends]
        self._forwards.take(Work(starts, work.cancels, work.releases))
        cancelled: list[Event] = [
            Ended(task.id, EndReason.CANCELLED) for task, _, _ in work.starts if task.id not in ends
        ]
        if cancelled:
            self._publish(cancelled)
        try:
            for ended in ends.values():
                await ended.wait()
        except asyncio.CancelledError:
            self._forwards.take(Work(cancels=[(task.request, task.id) for task, _, _ in starts]))
            raise

    async def events(self) -> AsyncIterator[list[Event]]:
        """Yields what happened since the last item, for all requests together."""
        while True:
            await self._has_events.wait()
            self._has_events.clear()
            events, self._outbox = self._outbox, []
            yield events

    def hear(self, events: list[Event]) -> None:
        """Takes what happened, from any thread."""
        call_soon(self._loop, self._publish, events)

    @fatal_errors("the events")
    def _publish(self, events: list[Event]) -> None:
        """Lets the calls of ended tasks return, and the event stream go on."""
        for event in events:
            if not (isinstance(event, Output) and event.goes_on):
                ended = self._ends.pop(event.task, None)
                if ended is not None:
                    ended.set()
        self._outbox += events
        self._has_events.set()
