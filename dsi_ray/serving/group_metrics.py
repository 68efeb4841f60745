"""What the groups count, as Prometheus reads it: one snapshot of each group, and nothing older."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from dsi_ray.runtime.client.engine import Engine
from dsi_ray.runtime.metrics import catalogue as names
from dsi_ray.runtime.metrics.catalogue import CATALOGUE, MetricKind
from dsi_ray.runtime.metrics.snapshot import Distribution, Sample, Snapshot

UP = "dsi_ray_group_up"

VLLM = {
    names.DRAFT_RUNS: "vllm:spec_decode_num_drafts_total",
    names.DRAFTED_TOKENS: "vllm:spec_decode_num_draft_tokens_total",
    names.ACCEPTED_TOKENS: "vllm:spec_decode_num_accepted_tokens_total",
    names.ACCEPTED_AT_POSITION: "vllm:spec_decode_num_accepted_tokens_per_pos_total",
}
"""Our metrics under the names that vLLM's dashboards and ``vllm bench serve`` read."""

Snapshots = Sequence[Snapshot | None]
"""By group; None where the group does not answer."""


class GroupCollector(Collector):
    """Renders snapshots. Each sample says which group it is from, by its index.

    Args:
        snapshots: Of each group.
        model_name: What requests call the model.
    """

    def __init__(self, snapshots: Snapshots, model_name: str) -> None:
        self._snapshots = snapshots
        self._vllm = {"model_name": model_name}
        self._samples: defaultdict[str, list[tuple[str, Sample]]] = defaultdict(list)
        for group, snapshot in self._groups():
            for sample in snapshot.samples:
                self._samples[sample.name].append((group, sample))

    def collect(self) -> Iterator[Metric]:
        """All families, ours first."""
        up = GaugeMetricFamily(UP, "Whether a group answers.", labels=("group",))
        for index, snapshot in enumerate(self._snapshots):
            up.add_metric((str(index),), snapshot is not None)
        yield up
        for metric in CATALOGUE.values():
            if metric.kind is MetricKind.HISTOGRAM:
                yield self._histogram(metric)
            else:
                yield self._family(metric, metric.name, "group", {})
        for name, other in VLLM.items():
            yield self._family(CATALOGUE[name], other, "engine", self._vllm)

    def _groups(self) -> Iterator[tuple[str, Snapshot]]:
        for index, snapshot in enumerate(self._snapshots):
            if snapshot is not None:
                yield str(index), snapshot

    def _family(
        self, metric: names.Metric, name: str, owner: str, constant: Mapping[str, str]
    ) -> Metric:
        kind = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
        family = kind(name, metric.help, labels=(*constant, owner, *metric.labels))
        for group, sample in self._samples[metric.name]:
            family.add_metric((*constant.values(), group, *sample.labels), sample.value)
        return family

    def _histogram(self, metric: names.Metric) -> Metric:
        family = HistogramMetricFamily(metric.name, metric.help, labels=("group",))
        for group, snapshot in self._groups():
            distribution = snapshot.histograms[metric.name]
            family.add_metric((group,), _buckets(metric, distribution), distribution.total)
        return family


async def group_metrics(engine: Engine, model_name: str) -> bytes:
    """The metrics of all groups now; of a group that does not answer only that."""
    groups = (await engine.status())["groups"]
    snapshots = [group.get("metrics") for group in groups]
    registry = CollectorRegistry()
    registry.register(GroupCollector(snapshots, model_name))
    return generate_latest(registry)


def _buckets(metric: names.Metric, distribution: Distribution) -> list[tuple[str, float]]:
    """How many values are at most each bound."""
    bounds = [*map(floatToGoString, metric.buckets), "+Inf"]
    below = map(float, accumulate(distribution.counts))
    return list(zip(bounds, below, strict=True))
