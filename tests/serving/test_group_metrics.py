"""Snapshots of groups as Prometheus reads them."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from dsi_ray.runtime.metrics import catalogue as names
from dsi_ray.runtime.metrics.catalogue import CATALOGUE, MetricKind
from dsi_ray.runtime.metrics.snapshot import Distribution, Sample, Snapshot
from dsi_ray.serving.group_metrics import UP, VLLM, GroupCollector, Snapshots

Found = dict[tuple[str, frozenset[tuple[str, str]]], float]


def rendered(snapshots: Snapshots) -> Found:
    """Every sample that a scrape finds, by name and labels."""
    registry = CollectorRegistry()
    registry.register(GroupCollector(snapshots, "model"))
    text = generate_latest(registry).decode()
    found: Found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found
            found[key] = sample.value
    return found


def of(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """A value for every metric."""
    samples, histograms = [], {}
    for metric in CATALOGUE.values():
        if metric.kind is MetricKind.HISTOGRAM:
            size = len(metric.buckets) + 1
            counts = draw(st.lists(st.integers(0, 9), min_size=size, max_size=size))
            histograms[metric.name] = Distribution(tuple(counts), draw(st.floats(0, 9)))
        else:
            labels = tuple(f"some-{label}" for label in metric.labels)
            samples.append(Sample(metric.name, labels, draw(st.floats(0, 1e6))))
    return Snapshot(tuple(samples), histograms)


@given(st.lists(st.none() | snapshots(), min_size=1, max_size=3))
def test_every_value_of_every_group_is_there(groups: list[Snapshot | None]) -> None:
    found = rendered(groups)
    for index, snapshot in enumerate(groups):
        group = str(index)
        assert found[of(UP, group=group)] == (snapshot is not None)
        for name, labels, value in () if snapshot is None else snapshot.samples:
            own = dict(zip(CATALOGUE[name].labels, labels, strict=True))
            assert found[of(name, group=group, **own)] == value
            if name in VLLM:
                assert found[of(VLLM[name], model_name="model", engine=group, **own)] == value
        for name, distribution in {} if snapshot is None else snapshot.histograms.items():
            assert found[of(f"{name}_count", group=group)] == sum(distribution.counts)
            assert found[of(f"{name}_sum", group=group)] == distribution.total
            bound = CATALOGUE[name].buckets[0]
            key = of(f"{name}_bucket", group=group, le=str(float(bound)))
            assert found[key] == distribution.counts[0]


def test_vllm_bench_finds_what_it_sums() -> None:
    """It looks for these words in the lines of the text, and for positions as whole numbers."""
    samples = (
        Sample(names.DRAFT_RUNS, (), 2.0),
        Sample(names.DRAFTED_TOKENS, (), 9.0),
        Sample(names.ACCEPTED_TOKENS, (), 5.0),
        Sample(names.ACCEPTED_AT_POSITION, ("0",), 2.0),
    )
    names_found = {
        name: value
        for (name, _), value in rendered([Snapshot(samples, _EMPTY)]).items()
        if name.startswith("vllm:spec_decode")
    }
    assert names_found == {
        "vllm:spec_decode_num_drafts_total": 2.0,
        "vllm:spec_decode_num_draft_tokens_total": 9.0,
        "vllm:spec_decode_num_accepted_tokens_total": 5.0,
        "vllm:spec_decode_num_accepted_tokens_per_pos_total": 2.0,
    }


_EMPTY = {
    metric.name: Distribution((0,) * (len(metric.buckets) + 1), 0.0)
    for metric in CATALOGUE.values()
    if metric.kind is MetricKind.HISTOGRAM
}
