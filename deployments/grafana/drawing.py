"""One panel drawn by matplotlib, in the manner of Grafana's."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter

from deployments.grafana.prometheus import Series

_TEXT, _FAINT, _PANEL = "#ccccdc", "#8e8e9a", "#181b1f"
_GOOD, _BAD = "#73bf69", "#f2495c"
_PALETTE = ("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#b877d9", "#f2495c", "#8ab8ff", "#a0a0aa")

STYLE: dict[str, Any] = {
    "axes.edgecolor": "#34363c",
    "axes.facecolor": _PANEL,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.titlecolor": _TEXT,
    "axes.titlelocation": "left",
    "axes.titlesize": 8.5,
    "figure.facecolor": "#111217",
    "font.size": 7.5,
    "grid.color": "#2a2c32",
    "grid.linewidth": 0.6,
    "legend.edgecolor": "none",
    "legend.facecolor": _PANEL,
    "legend.framealpha": 0.6,
    "legend.fontsize": 7,
    "lines.linewidth": 1.2,
    "savefig.dpi": 85,
    "svg.fonttype": "none",
    "svg.hashsalt": "dsi-ray",
    "text.color": _TEXT,
    "xtick.color": _FAINT,
    "xtick.labelsize": 7,
    "ytick.color": _FAINT,
    "ytick.labelsize": 7,
}

_FORMATS: dict[str, Callable[[float], str]] = {
    "percentunit": "{:.0%}".format,
    "s": EngFormatter("s", sep=" ").format_data,
    "bytes": lambda value: EngFormatter("B", sep=" ").format_data(round(value)),
    "reqps": "{:.3g}/s".format,
    "ops": "{:.3g}/s".format,
    "short": "{:.3g}".format,
    "suffix:×": "{:.3g}×".format,
}


def draw(
    axes: Axes, panel: dict[str, Any], series: Sequence[Series], begin: float, end: float
) -> None:
    """Draws a panel of the dashboard with what its expressions gave from ``begin`` to ``end``."""
    defaults = panel["fieldConfig"]["defaults"]
    axes.set_title(panel["title"])
    if not any(not math.isnan(value) for one in series for value in one.values):
        axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", color=_FAINT)
        axes.set(xticks=[], yticks=[])
        return
    if panel["type"] != "bargauge":
        axes.set_xlim(begin, end)
        most_ticks = 2 * panel["gridPos"]["w"] / 3
        minutes = np.arange(begin, end, 60 * math.ceil((end - begin) / (60 * most_ticks)))
        axes.set_xticks(minutes, [f"{(minute - begin) / 60:.0f} min" for minute in minutes])
    _KINDS[panel["type"]](axes, defaults, series)
    if panel["type"] == "timeseries" and len(series) > 1:
        columns = panel["gridPos"]["w"] // 3
        axes.legend(loc="upper left", ncols=columns, handlelength=1, columnspacing=1)


def _lines(axes: Axes, defaults: dict[str, Any], series: Sequence[Series]) -> None:
    if defaults["custom"]["stacking"]["mode"] == "normal":
        _stack(axes, series)
    else:
        for one, colour in zip(series, _PALETTE * 3, strict=False):
            axes.plot(one.times, one.values, color=colour, label=one.name)
    for step in defaults.get("thresholds", {}).get("steps", [])[1:]:
        axes.axhline(step["value"], color=_BAD, linestyle=":", linewidth=1)
    # With room for the legend; where all is 0, the line lies at the bottom.
    top = 1.3 * axes.dataLim.y1
    axes.set_ylim(defaults["min"], defaults.get("max", top or 1))
    axes.yaxis.set_major_formatter(_tick(defaults))
    axes.locator_params(axis="y", nbins=5 if top else 1)


def _stack(axes: Axes, series: Sequence[Series]) -> None:
    times = sorted({time for one in series for time in one.times})
    values = [dict(zip(one.times, one.values, strict=True)) for one in series]
    heights = [[np.nan_to_num(found.get(time, 0.0)) for time in times] for found in values]
    names = [one.name for one in series]
    axes.stackplot(times, heights, labels=names, colors=_PALETTE, alpha=0.7, linewidth=0)


def _number(axes: Axes, defaults: dict[str, Any], series: Sequence[Series]) -> None:
    """The last value there is, and how it came about."""
    (one,) = series
    last = next(value for value in reversed(one.values) if not math.isnan(value))
    steps = defaults.get("thresholds", {}).get("steps", [])
    colour = _TEXT if not steps else _GOOD if last >= steps[-1]["value"] else _BAD
    text = _FORMATS[defaults["unit"]](last)
    axes.text(0.5, 0.55, text, transform=axes.transAxes, ha="center", size=15, color=colour)
    top = max(value for value in one.values if not math.isnan(value))
    axes.fill_between(one.times, one.values, color=colour, alpha=0.25, linewidth=0)
    axes.set_ylim(0, 2.5 * top or 1)
    axes.axis("off")


def _bars(axes: Axes, defaults: dict[str, Any], series: Sequence[Series]) -> None:
    values = [one.values[0] for one in series]
    axes.bar([one.name for one in series], values, color=_PALETTE[0], width=0.7)
    axes.set_ylim(defaults["min"], defaults["max"])
    axes.yaxis.set_major_formatter(_tick(defaults))
    axes.grid(visible=False, axis="x")


def _lanes(axes: Axes, defaults: dict[str, Any], series: Sequence[Series]) -> None:
    """A lane for each series, its values as colours."""
    colours = "RdYlGn" if "thresholds" in defaults else "RdYlBu_r"
    lanes = sorted(series, key=lambda one: one.name, reverse=True)
    for lane, one in enumerate(lanes):
        extent = (one.times[0], one.times[-1], lane - 0.4, lane + 0.4)
        axes.imshow([one.values], cmap=colours, vmin=0, vmax=1, aspect="auto", extent=extent)
    axes.set_xlim(axes.get_xlim())
    axes.set_yticks(range(len(lanes)), [one.name for one in lanes])
    axes.set_ylim(-0.6, len(lanes) - 0.4)
    axes.grid(visible=False)


def _tick(defaults: dict[str, Any]) -> Callable[[float, float], str]:
    return lambda value, _: _FORMATS[defaults["unit"]](value)


_KINDS: dict[str, Callable[[Axes, dict[str, Any], Sequence[Series]], None]] = {
    "timeseries": _lines,
    "stat": _number,
    "bargauge": _bars,
    "status-history": _lanes,
    "state-timeline": _lanes,
}
