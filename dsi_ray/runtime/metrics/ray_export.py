"""From snapshots to Ray's own metrics, which every node's agent gives to Prometheus."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ray.util.metrics import Counter, Gauge, Histogram

from dsi_ray.runtime.metrics.catalogue import CATALOGUE, Metric, MetricKind
from dsi_ray.runtime.metrics.snapshot import Distribution, Key, Sample, Snapshot

EXPORT_S = 5.0
"""Ray forgets a gauge that was not set for two of its reports: 20 s by default."""

_CLASSES = {MetricKind.COUNTER: Counter, MetricKind.GAUGE: Gauge}


class RayExporter:
    """Sets Ray's metrics to what snapshots say. One in a process."""

    def __init__(self) -> None:
        self._metrics: dict[str, Any] = {m.name: _ray_metric(m) for m in CATALOGUE.values()}
        self._counted: dict[Key, float] = {}
        self._observed: dict[str, Sequence[int]] = {}

    def export(self, snapshot: Snapshot) -> None:
        """Sets every gauge, and adds to counters and histograms what is new."""
        for sample in snapshot.samples:
            self._export_sample(sample)
        for name, distribution in snapshot.histograms.items():
            self._export_histogram(name, distribution)

    def _export_sample(self, sample: Sample) -> None:
        name, labels, value = sample
        metric = CATALOGUE[name]
        tags = dict(zip(metric.labels, labels, strict=True))
        if metric.kind is MetricKind.GAUGE:
            self._metrics[name].set(value, tags)
            return
        key = (name, *labels)
        before = self._counted.get(key)
        self._counted[key] = value
        if before is None:
            # ``inc`` refuses 0, but what begins with its first event shows no growth then.
            self._metrics[name]._record(value, tags)
        # A server that was started again counts from 0.
        elif new := value - before if value >= before else value:
            self._metrics[name].inc(new, tags)

    def _export_histogram(self, name: str, distribution: Distribution) -> None:
        bounds = CATALOGUE[name].buckets
        before = self._observed.get(name) or [0] * len(distribution.counts)
        self._observed[name] = distribution.counts
        # Ray passes on in which bucket a value lies, not the value.
        edges = zip((0.0, *bounds), (*bounds, 2 * bounds[-1]), strict=True)
        for (low, high), new, old in zip(edges, distribution.counts, before, strict=True):
            for _ in range(new - old):
                self._metrics[name].observe((low + high) / 2)


async def keep_exporting(status: Callable[[], Awaitable[dict[str, Any]]]) -> None:
    """Exports what ``status`` says every few seconds, without an end."""
    exporter = RayExporter()
    while True:
        exporter.export((await status())["metrics"])
        await asyncio.sleep(EXPORT_S)


def _ray_metric(metric: Metric) -> Any:
    if metric.kind is MetricKind.HISTOGRAM:
        return Histogram(metric.name, metric.help, list(metric.buckets), metric.labels)
    return _CLASSES[metric.kind](metric.name, metric.help, metric.labels)
