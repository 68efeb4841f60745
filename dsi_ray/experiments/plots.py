"""Heatmaps of speedups, as the paper draws them: slowdowns are pink."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsi_ray.config import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PINK = "#ff9ec8"


@dataclass(frozen=True, slots=True)
class Panel:
    """One heatmap.

    Attributes:
        title: Over it.
        speedups: By drafter latency and acceptance rate, both in 0 .. 1.
        least: What is below is a slowdown. A little below one is rounding, or noise.
    """

    title: str
    speedups: Mapping[tuple[float, float], float]
    least: float = 1 - 1e-9


def pyplot() -> Any:
    """Matplotlib without a display.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise ConfigError("figures need matplotlib: pip install 'dsi-ray[plots]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def draw_heatmaps(file: Path, title: str, panels: Sequence[Panel], columns: int = 2) -> None:
    """Writes a figure with all panels; the file's suffix chooses the format.

    Small grids get their speedups written into the cells.

    Raises:
        ConfigError: Matplotlib is not installed.
    """
    plt = pyplot()
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(4.9 * columns, 4.1 * rows), squeeze=False, layout="constrained"
    )
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for ax, panel in zip(axes.flat, panels, strict=False):
        image = _draw(ax, panel)
        figure.colorbar(image, ax=ax, label="speedup", extend="min")
    figure.suptitle(title)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def _draw(ax: "Axes", panel: Panel) -> Any:
    from matplotlib import colormaps
    from matplotlib.colors import Normalize

    drafters = sorted({drafter for drafter, _ in panel.speedups})
    acceptances = sorted({acceptance for _, acceptance in panel.speedups})
    values = [
        [panel.speedups[drafter, acceptance] for drafter in drafters] for acceptance in acceptances
    ]
    shown = colormaps["viridis"].with_extremes(under=PINK)
    most = max(max(map(max, values)), 1.01)
    scale = Normalize(vmin=panel.least, vmax=min(most, 5.0))
    image = ax.pcolormesh(
        range(len(drafters) + 1), range(len(acceptances) + 1), values, cmap=shown, norm=scale
    )
    _label(ax.set_xticks, drafters)
    _label(ax.set_yticks, acceptances)
    ax.set_xlabel("drafter latency / target latency")
    ax.set_ylabel("acceptance rate")
    slower = sum(value < panel.least for row in values for value in row) / len(panel.speedups)
    ax.set_title(f"{panel.title}   (max {most:.2f}x, pink {slower:.0%})", fontsize=10)
    if len(panel.speedups) <= 100:
        _write_values(ax, values, scale)
    return image


def _label(set_ticks: Any, values: Sequence[float]) -> None:
    """Some five labels, the last value among them."""
    shown = range(len(values) - 1, -1, -max(1, len(values) // 5))
    set_ticks([i + 0.5 for i in shown], [f"{values[i]:.0%}" for i in shown])


def _write_values(ax: "Axes", values: Sequence[Sequence[float]], scale: Any) -> None:
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            dark = 0 <= scale(value) < 0.6
            ax.text(
                column + 0.5,
                row + 0.5,
                f"{value:.2f}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if dark else "black",
            )


def draw_bars(file: Path, names: Sequence[str], bars: Mapping[str, Sequence[float]]) -> None:
    """Writes a figure with a group of speedups for each name.

    Raises:
        ConfigError: Matplotlib is not installed.
    """
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(11, 4.5), layout="constrained")
    width = 0.8 / len(bars)
    for place, (label, values) in enumerate(bars.items()):
        left = [i + (place - (len(bars) - 1) / 2) * width for i in range(len(names))]
        ax.bar_label(ax.bar(left, values, width, label=label), fmt="%.2f", fontsize=7)
    ax.set_xticks(range(len(names)), names, fontsize=8)
    ax.axhline(1, color="black", linewidth=0.8)
    ax.set_ylabel("speedup")
    ax.legend(ncols=len(bars), frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.12))
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def draw_lines(
    file: Path, lines: Mapping[str, Sequence[tuple[float, float]]], x_label: str, y_label: str
) -> None:
    """Writes a figure with a line of points for each label; whole numbers on the x axis.

    Raises:
        ConfigError: Matplotlib is not installed.
    """
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    for label, points in lines.items():
        ax.plot(*zip(*points, strict=True), marker="o", label=label)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_ylim(bottom=0)
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=130)
    plt.close(figure)
