"""GroupMetrics: what the coordinator counts. No message, and next to nothing for an event."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dsi_ray.core.messages import Ended, EndReason, Event, Output, Role, ServerId
from dsi_ray.runtime.coordinator.in_flight import InFlightRequest
from dsi_ray.runtime.metrics import catalogue as names
from dsi_ray.runtime.metrics.catalogue import CATALOGUE, MetricKind
from dsi_ray.runtime.metrics.gauges import state_of
from dsi_ray.runtime.metrics.lanes import Lanes
from dsi_ray.runtime.metrics.requests import counts_of
from dsi_ray.runtime.metrics.snapshot import Histogram, Key, Snapshot, samples_of
from dsi_ray.runtime.trace.spans import SpanOutcome
from dsi_ray.runtime.trace.work import TracedWork

_ENDINGS = ("finished", "abandoned", "failed")
_FINAL = (
    SpanOutcome.ACCEPTED,
    SpanOutcome.REJECTED,
    SpanOutcome.UNUSED,
    SpanOutcome.CANCELLED,
    SpanOutcome.FAILED,
)
_WASTED = (SpanOutcome.UNUSED, SpanOutcome.CANCELLED, SpanOutcome.FAILED)
_BUSY = {Role.TARGET: names.TARGET_BUSY_SECONDS, Role.DRAFTER: names.DRAFTER_BUSY_SECONDS}
_FORWARDS = {Role.TARGET: names.TARGET_FORWARDS, Role.DRAFTER: names.DRAFTER_FORWARDS}


class Report(NamedTuple):
    """An event of a server, the request that it is for, and the work that it ended, if any."""

    active: InFlightRequest
    event: Event
    work: TracedWork | None


class _Done(NamedTuple):
    """Work whose outcome may not be known yet, and its seconds: measured, then those that count."""

    active: InFlightRequest
    work: TracedWork
    seconds: float


class GroupMetrics:
    """The counters of a group.

    What requests in flight count for is read when somebody asks; here is what is kept of those
    that are over, and what belongs to servers.

    Args:
        servers: All that there are to be.
    """

    def __init__(self, servers: Iterable[ServerId]) -> None:
        # From 0: who looks at a counter's growth would not see the first event otherwise.
        self._values: defaultdict[Key, float] = defaultdict(float, _zeros(servers))
        self._task_ends: Counter[tuple[Role, EndReason]] = Counter()
        self._pending: list[_Done] = []
        self._lanes = Lanes()
        self._queue = Histogram(names.VERIFICATION_QUEUE_SECONDS)
        self._ttft = Histogram(names.TTFT_SECONDS)
        self._tpot = Histogram(names.TPOT_SECONDS)
        self._generation = Histogram(names.GENERATION_SECONDS)

    def heard(self, server: ServerId, reports: Iterable[Report], crossed: bool) -> None:
        """Counts one item of a server's stream, which may have crossed a process."""
        self._values[names.MESSAGES,] += crossed
        done: list[_Done] = []
        for active, event, work in reports:
            if isinstance(event, Ended):
                self._task_ends[server.role, event.reason] += 1
            elif not event.goes_on:
                self._task_ends[server.role, EndReason.DONE] += 1
            if work is not None:
                self._note(work)
                measured = event.seconds if isinstance(event, Output) else work.end - work.begin
                done.append(_Done(active, work, measured))
        if done:
            self._count_time(server, done)

    def sent(self, messages: float) -> None:
        """Counts what was sent to servers."""
        self._values[names.MESSAGES,] += messages

    def lost(self, server: ServerId) -> None:
        """Counts the death of a server."""
        self._values[names.SERVER_LOSSES, str(server)] += 1

    def closed(self, active: InFlightRequest) -> None:
        """Counts a request whose last task has ended."""
        self._add(counts_of(active))
        self._values[names.ENDED_REQUESTS, active.ending] += 1
        if not active.first:
            return
        stats = active.stats()
        self._ttft.observe(stats.ttft_ms / 1e3)
        if stats.completion_tokens > 1:
            self._tpot.observe(stats.tpot_ms / 1e3)
        if active.ending == "finished":
            self._generation.observe(stats.seconds)

    def snapshot(self, status: Mapping[str, Any], in_flight: Iterable[InFlightRequest]) -> Snapshot:
        """All values now.

        Args:
            status: The group's status.
            in_flight: The requests that were not closed.
        """
        self._settle()
        values = defaultdict(float, self._values)
        for (role, reason), count in self._task_ends.items():
            values[names.TASK_ENDS, role, reason] = count
        for active in in_flight:
            for key, value in counts_of(active).items():
                values[key] += value
        histograms = {
            names.VERIFICATION_QUEUE_SECONDS: self._queue.read(),
            names.TTFT_SECONDS: self._ttft.read(),
            names.TPOT_SECONDS: self._tpot.read(),
            names.GENERATION_SECONDS: self._generation.read(),
        }
        return Snapshot(samples_of(values | state_of(status)), histograms)

    def _note(self, work: TracedWork) -> None:
        if work.late:
            self._values[names.LATE_REPORTS, work.server.role] += 1
        if work.waited is not None and work.server.role is Role.TARGET:
            self._queue.observe(work.waited)

    def _count_time(self, server: ServerId, done: Sequence[_Done]) -> None:
        """Divides the server's time among work that was reported together."""
        spans = [(active.arrived + work.end, seconds) for active, work, seconds in done]
        for one, seconds in zip(done, self._lanes.divide(server, spans), strict=True):
            self._values[names.SERVER_BUSY_SECONDS, str(server)] += seconds
            self._pending.append(one._replace(seconds=seconds))

    def _settle(self) -> None:
        """Counts the work whose outcome is known by now."""
        pending, self._pending = self._pending, []
        for done in pending:
            outcome = done.active.trace.outcome(done.work)
            if outcome is SpanOutcome.PENDING:
                self._pending.append(done)
                continue
            role = done.work.server.role
            # A forward that was stopped is none that the server reported.
            forwards = done.work.forwards or int(outcome is SpanOutcome.CANCELLED)
            self._values[_BUSY[role], outcome] += done.seconds
            self._values[_FORWARDS[role], outcome] += forwards
            if role is Role.TARGET and outcome in _WASTED:
                self._values[names.WASTED_FORWARDS,] += forwards

    def _add(self, more: Mapping[Key, float]) -> None:
        for key, value in more.items():
            self._values[key] += value


def _zeros(servers: Iterable[ServerId]) -> dict[Key, float]:
    """The counters whose labels are known beforehand."""
    of_outcomes = (*_BUSY.values(), *_FORWARDS.values())
    keys: list[Key] = [(name, outcome) for name in of_outcomes for outcome in _FINAL]
    keys += [(names.ENDED_REQUESTS, ending) for ending in _ENDINGS]
    keys += [(names.TASK_ENDS, role, reason) for role in Role for reason in EndReason]
    keys += [(names.LATE_REPORTS, role) for role in Role]
    keys += [(names.ACCEPTED_AT_POSITION, str(position)) for position in range(names.POSITIONS)]
    for server in map(str, servers):
        keys += [(names.SERVER_BUSY_SECONDS, server), (names.SERVER_LOSSES, server)]
    counters = [metric for metric in CATALOGUE.values() if metric.kind is MetricKind.COUNTER]
    keys += [(metric.name,) for metric in counters if not metric.labels]
    return dict.fromkeys(keys, 0.0)
