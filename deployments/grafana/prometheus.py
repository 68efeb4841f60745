"""What the dashboard shows, asked of a Prometheus without Grafana."""

import re
from dataclasses import dataclass
from typing import Any

import httpx

from dsi_ray.runtime.metrics.catalogue import PREFIX


@dataclass(frozen=True)
class Series:
    """What an expression gave for one set of labels.

    Attributes:
        name: Its legend.
        times: Seconds since the epoch.
        values: At those times; NaN where nothing can be said.
    """

    name: str
    times: list[float]
    values: list[float]


class Prometheus:
    """A Prometheus that answers at ``url``.

    What it is asked raises :class:`httpx.HTTPStatusError` where the expression is not valid.
    """

    def __init__(self, url: str) -> None:
        self._api = f"{url}/api/v1"

    def at(self, time: float, expr: str, legend: str = "") -> list[Series]:
        """What an expression gives at one moment."""
        return self._ask("query", legend, query=expr, time=time)

    def over(
        self, begin: float, end: float, step: float, expr: str, legend: str = ""
    ) -> list[Series]:
        """What an expression gives from ``begin`` to ``end``, every ``step`` seconds."""
        return self._ask("query_range", legend, query=expr, start=begin, end=end, step=step)

    def _ask(self, path: str, legend: str, **parameters: str | float) -> list[Series]:
        answer = httpx.get(f"{self._api}/{path}", params=parameters).raise_for_status()
        return [_series(found, legend) for found in answer.json()["data"]["result"]]


def fill_in(expr: str, shown: str, rate_interval: str, source: str = PREFIX) -> str:
    """An expression of the dashboard, with values for its variables as Grafana puts them in."""
    values = {"${metrics}": source, "$__range": shown, "$__rate_interval": rate_interval}
    for name, value in values.items():
        expr = expr.replace(name, value)
    return expr


def _series(found: dict[str, Any], legend: str) -> Series:
    labels = found["metric"]
    name = re.sub(r"{{(\w+)}}", lambda match: labels.get(match[1], ""), legend)
    samples = found.get("values") or [found["value"]]
    return Series(name, [time for time, _ in samples], [float(value) for _, value in samples])
