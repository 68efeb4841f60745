"""Counters of a group on real Ray: what its requests and traces say, one by one."""

import asyncio
from collections.abc import Iterator

import pytest

from dsi_ray.config import EngineConfig
from dsi_ray.core.messages import Role
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine
from dsi_ray.runtime.metrics import catalogue as names
from dsi_ray.runtime.metrics.catalogue import CATALOGUE
from dsi_ray.runtime.metrics.ray_export import RayExporter
from dsi_ray.runtime.metrics.snapshot import Snapshot
from dsi_ray.runtime.request import RequestStats
from dsi_ray.runtime.trace.spans import Trace

from .test_group_metrics import total, values
from .test_requests import is_idle, wait_until

CONFIG = {
    "target": "simulated:tpot_ms=20",
    "drafters": ["simulated:tpot_ms=4,acceptance_rate=0.8", "lookup"],
    "sp_degree": 3,
}
PARAMS = SamplingParams(max_tokens=40)


@pytest.fixture(scope="module")
def engine(ray_cluster: None) -> Iterator[Engine]:
    with Engine(EngineConfig.model_validate(CONFIG)) as engine:
        yield engine


def read(engine: Engine) -> Snapshot:
    """The metrics of an engine that has nothing to do."""
    snapshot: Snapshot = wait_until(engine, is_idle)["metrics"]
    return snapshot


async def ask(engine: Engine, name: str) -> tuple[RequestStats, Trace]:
    """What one request took, and its trace once it has ended."""
    async for chunk in engine.stream([1, 2, 3], PARAMS, request_id=name):
        stats = chunk.stats
    assert stats is not None
    await asyncio.to_thread(wait_until, engine, is_idle)
    (trace,) = await engine.trace(name)
    return stats, trace


def test_counters_agree_with_requests_and_traces(engine: Engine) -> None:
    before = read(engine)

    async def one_after_another() -> list[tuple[RequestStats, Trace]]:
        return [await ask(engine, f"request-{index}") for index in range(3)]

    found = asyncio.run(one_after_another())
    after = read(engine)

    def grown(*metrics: str) -> float:
        return total(after, *metrics) - total(before, *metrics)

    all_stats = [stats for stats, _ in found]
    for name, field in {
        names.COMMITTED_TOKENS: "completion_tokens",
        names.DRAFTED_TOKENS: "drafted_tokens",
        names.ACCEPTED_TOKENS: "accepted_tokens",
        names.REJECTED_TOKENS: "rejected_tokens",
    }.items():
        assert grown(name) == sum(getattr(stats, field) for stats in all_stats), name
    # What was sent and heard after the last token is no part of the request's figures.
    assert grown(names.MESSAGES) >= sum(stats.messages for stats in all_stats)
    assert grown(names.ENDED_REQUESTS) == len(found)
    spans = [span for _, trace in found for span in trace.spans]
    of_targets = [span for span in spans if span.server.role is Role.TARGET]
    forwards = values(after, names.TARGET_FORWARDS)["cancelled",]
    assert grown(names.TARGET_FORWARDS) - forwards == sum(span.forwards for span in of_targets)
    for name, some in (
        (names.TARGET_BUSY_SECONDS, of_targets),
        (names.SERVER_BUSY_SECONDS, spans),
    ):
        seconds = sum(span.end - span.begin for span in some)
        assert grown(name) == pytest.approx(seconds, rel=0.05), name


def test_a_request_in_flight_is_counted(engine: Engine) -> None:
    before = total(read(engine), names.COMMITTED_TOKENS)

    async def during() -> float:
        stream = engine.stream([1], SamplingParams(max_tokens=10_000))
        async for _ in stream:
            snapshot = (await engine.status())["groups"][0]["metrics"]
            assert total(snapshot, names.RUNNING_REQUESTS) == 1
            await stream.aclose()
        return total(snapshot, names.COMMITTED_TOKENS)

    assert asyncio.run(during()) > before
    after = read(engine)
    assert values(after, names.ENDED_REQUESTS)["abandoned",] == 1
    assert total(after, names.RUNNING_REQUESTS) == 0


def test_a_snapshot_has_every_metric_with_its_labels(engine: Engine) -> None:
    asyncio.run(ask(engine, "request"))
    snapshot = read(engine)
    found = {sample.name for sample in snapshot.samples} | snapshot.histograms.keys()
    assert found == CATALOGUE.keys()
    for sample in snapshot.samples:
        assert len(sample.labels) == len(CATALOGUE[sample.name].labels)
    for name, distribution in snapshot.histograms.items():
        assert len(distribution.counts) == len(CATALOGUE[name].buckets) + 1


def test_ray_takes_every_metric(engine: Engine) -> None:
    """Warnings are errors: names and labels are what Ray wants, and counters only grow."""
    exporter = RayExporter()
    for _ in range(2):
        exporter.export(read(engine))
        asyncio.run(ask(engine, "request"))
