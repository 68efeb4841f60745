"""What the dashboard shows, asked of a Prometheus without Grafana."""

import httpx

from dsi_ray.runtime.metrics.catalogue import PREFIX


class Prometheus:
    """A Prometheus that answers at ``url``.

    What it is asked raises :class:`httpx.HTTPStatusError` where the expression is not valid.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def at(self, time: float, expr: str) -> list[float]:
        """What an expression gives at one moment, for each set of labels; NaN for nothing."""
        parameters: dict[str, str | float] = {"query": expr, "time": time}
        answer = httpx.get(f"{self._url}/api/v1/query", params=parameters).raise_for_status()
        return [float(found["value"][1]) for found in answer.json()["data"]["result"]]


def fill_in(expr: str, shown: str, rate_interval: str, source: str = PREFIX) -> str:
    """An expression of the dashboard, with values for its variables as Grafana puts them in."""
    values = {"${metrics}": source, "$__range": shown, "$__rate_interval": rate_interval}
    for name, value in values.items():
        expr = expr.replace(name, value)
    return expr
