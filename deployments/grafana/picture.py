"""Draws the dashboard without Grafana: ``python -m deployments.grafana.picture FILE``.

From what a Prometheus has: the same expressions, in the same places.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import matplotlib
import typer
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from deployments.grafana.dashboard import dashboard
from deployments.grafana.drawing import STYLE, draw
from deployments.grafana.panel import WIDTH
from deployments.grafana.prometheus import Prometheus, Series, fill_in

_POINTS = 100
"""Of each line."""

_UNIT = (0.42, 0.24)
"""Inches of Grafana's units of width and height."""

_ABOVE, _BELOW, _RIGHT = 1.4, 1.0, 0.3
"""What a panel leaves free for its title and labels, in Grafana's units."""


class Board:
    """The dashboard's answers over a stretch of time.

    Args:
        prometheus: Who is asked.
        minutes: Length of the stretch.
        ago: How many minutes ago it ended.
    """

    def __init__(self, prometheus: Prometheus, minutes: float, ago: float) -> None:
        self._prometheus = prometheus
        self.end = time.time() - ago * 60
        self.begin = self.end - minutes * 60
        self._step = (self.end - self.begin) / _POINTS
        (scrapes,) = prometheus.at(self.end, "max(count_over_time(dsi_ray_group_up[5m]))")
        # As Grafana chooses it: never less than four scrapes.
        scrape = min(300, self.end - self.begin) / scrapes.values[0]
        self._rate_interval = max(4 * scrape, self._step + scrape)

    def series(self, panel: dict[str, Any]) -> Iterator[Series]:
        """What a panel shows."""
        for target in panel["targets"]:
            seconds = f"{self.end - self.begin:.0f}s", f"{self._rate_interval:.0f}s"
            expr = fill_in(target["expr"], *seconds)
            legend = target["legendFormat"]
            if target["instant"]:
                yield from self._prometheus.at(self.end, expr, legend)
            else:
                yield from self._prometheus.over(self.begin, self.end, self._step, expr, legend)


def picture(board: Board) -> Figure:
    """All panels and headings of the dashboard."""
    panels = dashboard()["panels"]
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    figure: Figure = pyplot.figure(figsize=(WIDTH * _UNIT[0], height * _UNIT[1]))
    for panel in panels:
        place = panel["gridPos"]
        top = 1 - place["y"] / height
        if panel["type"] == "row":
            figure.text(0.3 / WIDTH, top - 0.85 / height, panel["title"], size=11, weight="bold")
            continue
        axes = _axes(figure, panel, height)
        draw(axes, panel, list(board.series(panel)), board.begin, board.end)
    return figure


def _axes(figure: Figure, panel: dict[str, Any], height: int) -> Axes:
    """A place for a panel, with room for its title above and labels around."""
    place, side = panel["gridPos"], 0.3 if panel["type"] == "stat" else 1.6
    return figure.add_axes(
        (
            (place["x"] + side) / WIDTH,
            1 - (place["y"] + place["h"] - _BELOW) / height,
            (place["w"] - side - _RIGHT) / WIDTH,
            (place["h"] - _BELOW - _ABOVE) / height,
        )
    )


def main(
    file: Annotated[Path, typer.Argument(help="To write; its suffix chooses the format.")],
    url: Annotated[str, typer.Option(help="Of the Prometheus.")] = "http://127.0.0.1:9090",
    minutes: Annotated[float, typer.Option(help="How much of the time.")] = 30,
    ago: Annotated[float, typer.Option(help="How many minutes ago that time ended.")] = 0,
) -> None:
    """Draws what the dashboard showed."""
    matplotlib.use("Agg")
    with pyplot.rc_context(STYLE):
        picture(Board(Prometheus(url), minutes, ago)).savefig(file)


if __name__ == "__main__":
    typer.run(main)
