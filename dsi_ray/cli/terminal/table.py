"""The bench's figures as a table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from dsi_ray.experiments.bench.bench import Row

_COLUMNS = (
    "tok/s",
    "speed",
    "TTFT\nms",
    "accept.\nrate",
    "target\nforwards",
    "cancelled\ntasks",
    "messages\n/token",
    "identical\ntokens",
)
"""Narrow enough for a terminal of 80 columns; the JSON report holds more."""


def print_rows(title: str, rows: Sequence["Row"]) -> None:
    """Prints a row for each contender; speeds are relative to the first."""
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0), pad_edge=False
    )
    table.add_column("")
    for column in _COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    fastest = max(row.tokens_per_second for row in rows)
    for row in rows:
        style = "bold" if row.tokens_per_second == fastest else None
        table.add_row(row.name, *_cells(row, rows[0]), style=style)
    Console().print(table)


def _cells(row: "Row", first: "Row") -> list[str]:
    return [
        f"{row.tokens_per_second:.1f}",
        f"{row.tokens_per_second / first.tokens_per_second:.2f}x",
        _number(row.ttft_ms, ".0f"),
        _number(row.acceptance_rate, ".0%"),
        _number(row.target_forwards, "d"),
        _number(row.cancelled_tasks, "d"),
        _number(row.messages_per_token, ".1f"),
        "yes" if row.identical_tokens else "NO",
    ]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
