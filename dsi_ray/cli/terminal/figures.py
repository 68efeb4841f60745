"""What the experiments' commands share: a progress bar, tables, CSV files and pictures."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from dsi_ray.cli.terminal.json_file import STDOUT, check_writable, write_json
from dsi_ray.cli.terminal.progress import progress_bar
from dsi_ray.config import ConfigError

if TYPE_CHECKING:
    from dsi_ray.experiments.virtual.heatmap import Cell

T = TypeVar("T")
Progress = Callable[[], None]
Rows = Sequence[Mapping[str, Any]]

Columns = Mapping[str, tuple[str, str]]
"""By heading: the key of a row and how its value is formatted."""

Out = Annotated[
    Path | None,
    typer.Option("--out", help="Also write CSV and PNG files to this directory.", metavar="DIR"),
]
Seed = Annotated[int, typer.Option(help="Seed of the random texts.")]

_NOISE = 0.98
"""A measured speedup of at least this is no slowdown."""


def with_progress(title: str, total: int, run: Callable[[Progress], T]) -> T:
    """Runs ``run`` under a bar that it advances ``total`` times."""
    with progress_bar() as bar:
        task = bar.add_task(title, total=total)
        return run(lambda: bar.advance(task))


def check_outputs(out: Path | None, json_file: Path | None) -> None:
    """Finds out before the experiment, not after it, that results cannot be written.

    Raises:
        ConfigError: There is a file where the directory should be, no parent directory for the
            JSON file, or no matplotlib.
    """
    check_writable(json_file)
    if out is None:
        return
    from dsi_ray.experiments.plots import pyplot

    pyplot()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write into {out}: {error.strerror}") from error


def report(
    title: str,
    rows: Rows,
    columns: Columns,
    json_file: Path | None,
    out: Path | None = None,
    name: str = "",
) -> None:
    """Prints rows, unless stdout is for JSON; writes JSON, and ``name``.csv into ``out``."""
    if json_file != STDOUT:
        print_rows(title, rows, columns)
    if out is not None:
        _save_rows(out, name, rows)
    write_json({"rows": rows}, json_file)


def _save_rows(out: Path, name: str, rows: Rows) -> None:
    from dsi_ray.experiments.export import write_csv

    write_csv(out / f"{name}.csv", rows)


def print_rows(title: str, rows: Rows, columns: Columns) -> None:
    """Prints some columns of all rows."""
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0), pad_edge=False
    )
    for heading, (_, form) in columns.items():
        table.add_column(heading, justify="left" if form == "s" else "right", no_wrap=True)
    for row in rows:
        cells = ((row[key], form) for key, form in columns.values())
        table.add_row(*("-" if value is None else format(value, form) for value, form in cells))
    Console().print(table)


def save_heatmaps(out: Path, name: str, title: str, grids: Mapping[str, Sequence["Cell"]]) -> None:
    """Writes the four panels of each grid, as CSV and PNG."""
    from dsi_ray.experiments.plots import Panel, draw_heatmaps

    for kind, cells in grids.items():
        _save_rows(out, f"{name}_{kind}", [cell.as_row() for cell in cells])
        panels = [
            Panel(
                f"({letter}) {panel}",
                {(cell.drafter, cell.acceptance): cell.speedups[panel] for cell in cells},
            )
            for letter, panel in zip("abcd", cells[0].speedups, strict=True)
        ]
        readable = kind.replace("_", " ")
        draw_heatmaps(out / f"{name}_{kind}.png", f"{title}, {readable}", panels)


def save_grid(out: Path, rows: Rows) -> None:
    """Writes the measured grid: SP degrees side by side; where SI fails its panel is pink."""
    from dsi_ray.experiments.plots import Panel, draw_heatmaps

    def values(
        numerator: str, denominator: str, sp_degree: int
    ) -> dict[tuple[float, float], float]:
        return {
            (row["drafter"], row["acceptance"]): row[numerator] / row[denominator]
            for row in rows
            if row["sp_degree"] == sp_degree
        }

    sp_degrees = sorted({row["sp_degree"] for row in rows})
    panels = [Panel("SI / non-SI", values("non_si_s", "si_s", sp_degrees[0]))]
    for numerator, name in (("non_si_s", "DSI / non-SI"), ("si_s", "DSI / SI")):
        panels += [
            Panel(f"{name}, SP {sp_degree}", values(numerator, "dsi_s", sp_degree), _NOISE)
            for sp_degree in sp_degrees
        ]
    draw_heatmaps(out / "grid.png", "Measured on Ray", panels, columns=4)


def save_joint(out: Path, rows: Rows) -> None:
    """Writes the joint plan, as CSV and PNG: a line for each number of devices of a server."""
    from dsi_ray.experiments.plots import draw_lines

    _save_rows(out, "joint_plan", rows)
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        point = row["sp_degree"], row["dsi_ms_per_token"]
        lines.setdefault(f"MP {row['model_parallel']}", []).append(point)
    draw_lines(out / "joint_plan.png", lines, "target servers (SP)", "ms a token with DSI")


def save_table(out: Path, rows: Rows) -> None:
    """Writes the speedups of Table 2 over SI, as measured, at the bound and in the paper."""
    from dsi_ray.experiments.plots import draw_bars

    names = [f"{row['target']}\n{row['dataset']}" for row in rows]
    bars = {
        "DSI / SI, measured": "measured_dsi_over_si",
        "DSI / SI, bound": "bound_dsi_over_si",
        "DSI / SI, paper": "dsi_over_si",
        "DSI / non-SI, measured": "measured_dsi_over_non_si",
    }
    draw_bars(
        out / "table_2.png",
        names,
        # Not all pairs are in the paper.
        {label: [row[key] or math.nan for row in rows] for label, key in bars.items()},
    )
