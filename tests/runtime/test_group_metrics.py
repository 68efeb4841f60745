"""What a group counts, under virtual time and in hostile orders."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.config import Algorithm
from dsi_ray.core.decoders import Decoder
from dsi_ray.core.group.request_state import RequestState
from dsi_ray.core.messages import Command, Emit, Event, Fail, Role, ServerId
from dsi_ray.models.base import Sampling
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.coordinator.decode_jobs import job_of
from dsi_ray.runtime.coordinator.in_flight import InFlightRequest
from dsi_ray.runtime.metrics import catalogue as names
from dsi_ray.runtime.metrics.catalogue import CATALOGUE, MetricKind
from dsi_ray.runtime.metrics.group import GroupMetrics, Report
from dsi_ray.runtime.metrics.lanes import Lanes
from dsi_ray.runtime.metrics.snapshot import Histogram, Snapshot
from dsi_ray.runtime.request import Decoding, Generation
from dsi_ray.runtime.trace.record import RequestTrace
from dsi_ray.runtime.trace.spans import Span
from tests.core.hostile import HostileDriver
from tests.core.scenario import ALGORITHMS, Scenario
from tests.core.strategies import scenarios

algorithms = pytest.mark.parametrize("algorithm", ALGORITHMS)
TARGET = ServerId(Role.TARGET, 0)
STATUS: dict[str, Any] = {
    "targets": {"configured": 1, "alive": 1, "busy": 0, "required": 1},
    "servers": [],
    "lost": {},
    "suspected": [],
    **dict.fromkeys(
        ["requests", "tasks", "restarts", "moves", "moved_tokens", "lookahead"]
        + ["target_ms", "drafter_ms", "message_ms", "acceptance_rate"],
        0,
    ),
}


class CountedDriver(HostileDriver):
    """A hostile run that is counted as the coordinator counts it."""

    def __init__(self, decoder: Decoder, *arguments: Any, **options: Any) -> None:
        super().__init__(decoder, *arguments, **options)
        request = decoder.request
        generation = Generation(
            request.id,
            request.prompt,
            frozenset(),
            Sampling(SamplingParams(), len(request.prompt)),
            Decoding(Algorithm.DSI),
        )
        self.trace = RequestTrace(request, Algorithm.DSI, max_spans=10_000)
        member = RequestState(job_of(generation), decoder, set())
        self.active = InFlightRequest(generation, member, self.trace, lambda chunk: None, 0.0)
        self.metrics = GroupMetrics(self.batches)
        self.snapshots: list[Snapshot] = []

    @property
    def servers(self) -> list[ServerId]:
        """All servers."""
        return list(self.batches)

    def _handle(self, events: list[Event]) -> list[Command]:
        for server in self.servers:
            reports = [
                Report(self.active, event, self.trace.hear(event, self._now))
                for event in events
                if self._server_of(event) == server
            ]
            if reports:
                self.metrics.heard(server, reports, crossed=True)
        return super()._handle(events)

    def _server_of(self, event: Event) -> ServerId | None:
        for board in (self.decoder.verifying, self.decoder.drafting):
            if (live := board.find(event.task)) is not None:
                return live.task.server
        return None

    def _execute(self, commands: Sequence[Command]) -> None:
        already = len(self.commands)
        super()._execute(commands)
        for command in self.commands[already:]:
            self.trace.say(command, self._now)
            match command:
                case Emit():
                    self.active.emit(command)
                case Fail(error):
                    self.active.fail(error)
        if self.abandoned_at is not None:
            self.trace.end(self.abandoned_at)
        self.snapshots.append(self.metrics.snapshot(STATUS, [self.active]))


def counted(scenario: Scenario, algorithm: str, **options: Any) -> CountedDriver:
    """A run to its end, and one more snapshot after it."""
    driver = scenario.driver(algorithm, CountedDriver, **options)
    assert isinstance(driver, CountedDriver)
    driver()
    driver.metrics.closed(driver.active)
    driver.snapshots.append(driver.metrics.snapshot(STATUS, []))
    return driver


def values(snapshot: Snapshot, name: str) -> dict[tuple[str, ...], float]:
    """The values of a metric by its labels."""
    return {sample.labels: sample.value for sample in snapshot.samples if sample.name == name}


def total(snapshot: Snapshot, *metrics: str) -> float:
    """The sum of all values of metrics."""
    return sum(sum(values(snapshot, name).values()) for name in metrics)


def busy(spans: Sequence[Span], server: ServerId) -> float:
    return sum(span.end - span.begin for span in spans if span.server == server)


@algorithms
@given(scenario=scenarios(), abandon_after=st.none() | st.integers(1, 60))
def test_counters_never_fall_and_account_for_all_time(
    algorithm: str, scenario: Scenario, abandon_after: int | None
) -> None:
    driver = counted(scenario, algorithm, abandon_after=abandon_after)
    before: dict[tuple[str, ...], float] = {}
    for snapshot in driver.snapshots:
        now = {(sample.name, *sample.labels): sample.value for sample in snapshot.samples}
        for key, value in before.items():
            assert CATALOGUE[key[0]].kind is MetricKind.GAUGE or now[key] >= value, key
        before = now
    length, last = driver.trace.snapshot(driver._now).seconds, driver.snapshots[-1]
    assert all(value <= length for value in values(last, names.SERVER_BUSY_SECONDS).values())
    of_outcomes = total(last, names.TARGET_BUSY_SECONDS, names.DRAFTER_BUSY_SECONDS)
    assert of_outcomes == pytest.approx(total(last, names.SERVER_BUSY_SECONDS))


@algorithms
@given(scenario=scenarios(min_drafters=1, messages=st.just((0,))))
def test_busy_seconds_are_those_of_the_trace(algorithm: str, scenario: Scenario) -> None:
    driver = counted(scenario, algorithm)
    found = values(driver.snapshots[-1], names.SERVER_BUSY_SECONDS)
    spans = driver.trace.snapshot(driver._now).spans
    assert found == {(str(server),): busy(spans, server) for server in driver.servers}


@algorithms
@given(scenario=scenarios())
def test_counts_are_the_requests(algorithm: str, scenario: Scenario) -> None:
    driver = counted(scenario, algorithm)
    last, stats = driver.snapshots[-1], driver.active.stats()
    assert total(last, names.COMMITTED_TOKENS) == stats.completion_tokens
    assert total(last, names.DRAFTED_TOKENS) == stats.drafted_tokens
    assert total(last, names.REJECTED_TOKENS) == stats.rejected_tokens
    assert total(last, names.ACCEPTED_TOKENS) == stats.accepted_tokens
    assert total(last, names.DRAFT_RUNS) == sum(stats.acceptance_histogram)
    by_position = values(last, names.ACCEPTED_AT_POSITION)
    for (position,), accepted in by_position.items():
        assert accepted == sum(stats.acceptance_histogram[int(position) + 1 :])
    assert len(by_position) <= names.POSITIONS
    forwards = values(last, names.TARGET_FORWARDS)
    assert sum(forwards.values()) - forwards["cancelled",] - forwards["failed",] == (
        stats.target_forwards
    )
    assert total(last, names.WASTED_FORWARDS) == sum(
        forwards[outcome,] for outcome in ("unused", "cancelled", "failed")
    )
    assert values(last, names.ENDED_REQUESTS)["finished",] == 1
    assert sum(last.histograms[names.TTFT_SECONDS].counts) == 1


@given(
    st.lists(
        st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)), min_size=1, max_size=4), min_size=1
    )
)
def test_every_moment_counts_once(items: list[list[tuple[float, float]]]) -> None:
    lanes, clock, counts = Lanes(), 0.0, 0.0
    for item in items:
        spans = []
        for gap, seconds in item:
            clock += gap
            spans.append((clock, seconds))
        shares = lanes.divide(TARGET, spans)
        assert all(share >= 0 for share in shares)
        assert sum(shares) <= sum({seconds for _, seconds in item}) + 1e-9
        counts += sum(shares)
    first = items[0]
    assert counts <= clock - first[0][0] + sum(seconds for _, seconds in first) + 1e-9


def test_requests_of_one_forward_share_its_time() -> None:
    lanes = Lanes()
    assert lanes.divide(TARGET, [(10.0, 4.0), (10.0, 4.0)]) == [2.0, 2.0]
    # Two forwards that were heard together; the first of them began when nothing else ran.
    assert lanes.divide(TARGET, [(20.0, 1.0), (20.0, 3.0)]) == [1.0, 3.0]
    # Most of this one was counted already.
    assert lanes.divide(TARGET, [(20.5, 4.0)]) == [0.5]
    assert lanes.divide(ServerId(Role.TARGET, 1), [(20.5, 4.0)]) == [4.0]


@given(st.lists(st.floats(0, 1000)))
def test_a_histogram_counts_each_value_in_its_bucket(found: list[float]) -> None:
    histogram = Histogram(names.TTFT_SECONDS)
    for value in found:
        histogram.observe(value)
    counts, total = histogram.read()
    bounds = (*CATALOGUE[names.TTFT_SECONDS].buckets, float("inf"))
    for index, bound in enumerate(bounds):
        assert sum(counts[: index + 1]) == sum(value <= bound for value in found)
    assert total == pytest.approx(sum(found))


@pytest.mark.parametrize("metric", CATALOGUE.values(), ids=CATALOGUE)
def test_names_follow_prometheus(metric: names.Metric) -> None:
    assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
    assert bool(metric.buckets) == (metric.kind is MetricKind.HISTOGRAM)
    assert metric.help.endswith(".")
    assert list(metric.buckets) == sorted(set(metric.buckets))
    assert "ms" not in metric.name.split("_")
