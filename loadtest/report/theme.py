"""Figures as SVG inside a page, in the page's own colours, light or dark."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from loadtest.errors import LoadTestError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAILED = "#e5484d"
_PALETTE = ("#3b82f6", "#f59e0b", "#10b981", "#a855f7", "#ef6c57", "#64748b")
_PAGE_COLOURS = {"#010203": "var(--ink)", "#040506": "var(--line)"}
"""What matplotlib writes, and what the page puts there."""

_INK, _LINE = _PAGE_COLOURS
_STYLE = {
    "axes.edgecolor": _LINE,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": _INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "figure.facecolor": "none",
    "font.size": 10,
    "grid.color": _LINE,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
    "svg.hashsalt": "loadtest",
    "text.color": _INK,
    "xtick.color": _LINE,
    "xtick.labelcolor": _INK,
    "ytick.color": _LINE,
    "ytick.labelcolor": _INK,
}


class Drawing:
    """A figure in the making.

    Attributes:
        axes: To draw on.
        svg: The element, once the figure is finished.
    """

    def __init__(self, axes: "Axes") -> None:
        self.axes = axes
        self.svg = ""


@contextmanager
def drawing(title: str, x: str, y: str) -> Iterator[Drawing]:
    """Lets a figure be drawn; it is finished at the end of the ``with`` block.

    Raises:
        LoadTestError: Matplotlib is not installed.
    """
    matplotlib = _matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(5, 3.3), layout="constrained")
        result = Drawing(figure.add_subplot())
        result.axes.set(title=title, xlabel=x, ylabel=y)
        yield result
        if len(result.axes.get_legend_handles_labels()[1]) > 1:
            figure.legend(loc="outside lower center", ncols=4, columnspacing=1.2)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    for written, wanted in _PAGE_COLOURS.items():
        svg = svg.replace(written, wanted)
    result.svg = svg[svg.index("<svg") :]


def colours(count: int) -> Sequence[Any]:
    """Returns a colour for each of ``count`` things: in order of size where there are many."""
    if count <= len(_PALETTE):
        return _PALETTE[:count]
    scale = _matplotlib().colormaps["viridis"]
    return [scale(0.9 * index / (count - 1)) for index in range(count)]


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise LoadTestError(
            "the page needs matplotlib: pip install 'dsi-ray[loadtest]', then: report FOLDER"
        ) from None
    return matplotlib
