"""Books: metrics and traces of what happens in a group, kept once everybody has been served."""

from collections.abc import Iterable, Sequence

from dsi_ray.config import Algorithm
from dsi_ray.core.decoders import Request
from dsi_ray.core.group.request_state import RoutedCommand
from dsi_ray.core.messages import Event, Release, ServerId
from dsi_ray.runtime.coordinator.in_flight import InFlightRequest
from dsi_ray.runtime.metrics.group import GroupMetrics, Report
from dsi_ray.runtime.trace.record import RequestTrace
from dsi_ray.runtime.trace.recorder import TraceRecorder
from dsi_ray.runtime.trace.spans import Trace

Heard = list[tuple[InFlightRequest, Event]]
"""The events of one server's tasks, with whose they are."""


class Books:
    """The books of one group.

    Args:
        servers: All that there are to be.
        in_flight: The requests in flight, by id; kept up to date by the coordinator, but for those
            that are over, which are taken out here.
    """

    def __init__(self, servers: Iterable[ServerId], in_flight: dict[str, InFlightRequest]) -> None:
        self.metrics = GroupMetrics(servers)
        self._traces = TraceRecorder()
        self._in_flight = in_flight

    def open(self, request: Request, algorithm: Algorithm) -> RequestTrace:
        """Begins the trace of a request."""
        return self._traces.open(request, algorithm)

    def hear(self, server_id: ServerId, heard: Heard, *, crossed: bool) -> None:
        """Notes what happened on one server, which may have crossed a process."""
        reports = [
            Report(request, event, request.trace.hear(event, request.elapsed))
            for request, event in heard
        ]
        requests = {request for request, _ in heard}
        for request in requests:
            request.messages += crossed / len(requests)
        if reports:
            self.metrics.heard(server_id, reports, crossed)

    def say(self, said: Sequence[RoutedCommand]) -> None:
        """Notes commands, and closes the books of requests that are over."""
        for member, command in said:
            request = self._in_flight[member.job.id]
            request.trace.say(command, request.elapsed)
            if isinstance(command, Release):
                request.note_stats()
                self.metrics.closed(request)
                del self._in_flight[member.job.id]

    def traces(self, request_id: str, since: float) -> list[Trace]:
        """What each server did for a request, or for all parts of one; nothing if unknown."""
        traces = []
        for trace in self._traces.find(request_id):
            request = self._in_flight.get(trace.request)
            if request is not None:
                request.note_stats()
            traces.append(trace.snapshot(request.elapsed if request else 0.0, since))
        return traces
