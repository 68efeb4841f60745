"""Snapshot: the values of all metrics of a group at one moment. Made for JSON."""

from bisect import bisect_left
from collections.abc import Mapping
from typing import NamedTuple

from dsi_ray.runtime.metrics.catalogue import CATALOGUE

Key = tuple[str, ...]
"""A metric's name, then the values of its labels."""


class Sample(NamedTuple):
    """One value of a counter or a gauge."""

    name: str
    labels: tuple[str, ...]
    value: float


class Distribution(NamedTuple):
    """The values of a histogram.

    Attributes:
        counts: By bucket; the last is for what is beyond the largest bound.
        total: Sum of all values.
    """

    counts: tuple[int, ...]
    total: float


class Snapshot(NamedTuple):
    """All values, of counters and gauges and by name of histograms."""

    samples: tuple[Sample, ...]
    histograms: Mapping[str, Distribution]


def samples_of(values: Mapping[Key, float]) -> tuple[Sample, ...]:
    """The values with their names and labels apart."""
    return tuple(Sample(key[0], key[1:], value) for key, value in values.items())


class Histogram:
    """Counts values by bucket.

    Args:
        name: Of the metric.
    """

    def __init__(self, name: str) -> None:
        self._bounds = CATALOGUE[name].buckets
        self._counts = [0] * (len(self._bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        """Counts a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def read(self) -> Distribution:
        """What was counted so far."""
        return Distribution(tuple(self._counts), self._total)
