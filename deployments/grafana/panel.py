"""A panel of the dashboard, and how it asks."""

from dataclasses import dataclass

from dsi_ray.runtime.metrics.catalogue import PREFIX

WIDTH = 24
"""Of a row, in Grafana's units."""

Targets = dict[str, str]
"""Expressions by legend."""


@dataclass(frozen=True)
class Panel:
    """One picture; two stand side by side.

    Attributes:
        floor: What is below it is bad, and red.
    """

    title: str
    description: str
    targets: Targets
    unit: str = "short"
    kind: str = "timeseries"
    width: int = WIDTH // 2
    stacked: bool = False
    limits: tuple[float | None, float | None] = (0, None)
    floor: float | None = None


@dataclass(frozen=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: list[Panel]
    height: int = 8


def rate(name: str, by: str = "", where: str = "") -> str:
    """The growth of a counter in a second: by some labels, where others match."""
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (rate({PREFIX}{name}{where}[$__rate_interval]))"


def percentiles(name: str) -> Targets:
    """Three of a histogram."""
    buckets = rate(f"{name}_bucket", by="le")
    return {
        f"p{percent}": f"histogram_quantile({percent / 100:g}, {buckets})"
        for percent in (50, 90, 99)
    }
