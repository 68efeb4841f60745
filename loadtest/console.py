"""What a run's figures look like on a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from loadtest.compare import compared, differences, pairs
from loadtest.faults.chaos import Outcome
from loadtest.summary import Point, Summary
from loadtest.table import CLIENT, DISTRIBUTIONS, NOT_REPORTED, OVERVIEW, SERVER, STATISTICS


def print_summary(summary: Summary) -> None:
    """Prints all figures of a run with one point, or the first to look at of several."""
    console = Console()
    if len(summary.points) > 1:
        console.print(_overview(summary))
        return
    point = summary.points[0]
    spread = _table(f"{summary.name}: {point.name}", "", *STATISTICS)
    for label, rows in DISTRIBUTIONS.items():
        spread.add_row(label, *(row.text(point) for row in rows))
    console.print(spread)
    console.print(_scalars(point))


def _overview(summary: Summary) -> Table:
    table = _table(summary.name, "", *(row.label.replace(" ", "\n") for row in OVERVIEW))
    for point in summary.points:
        table.add_row(point.name, *(row.text(point) for row in OVERVIEW))
    return table


def _scalars(point: Point) -> Table:
    table = _table(None, "", "")
    for row in CLIENT:
        if row.value(point) is not None:
            table.add_row(row.label, row.text(point))
    for kind, count in point.figures.errors.items():
        table.add_row(f"error {kind}", str(count), style="red")
    known = [row for row in SERVER if row.value(point) is not None]
    for row in known:
        table.add_row(f"server: {row.label}", row.text(point))
    if not known:
        table.add_row("server's own figures", NOT_REPORTED)
    return table


def print_comparison(first: Summary, second: Summary) -> None:
    """Prints two runs side by side, with ratios."""
    console = Console()
    for ours, theirs in pairs(first, second):
        title = ours.name if ours.name == theirs.name else f"{ours.name} | {theirs.name}"
        table = _table(title, "", first.name, second.name, "ratio")
        for row, ratio in compared(ours, theirs):
            shown = "-" if ratio is None else f"{ratio:.3f}"
            table.add_row(row.label, row.text(ours), row.text(theirs), shown)
        console.print(table)
    for path, (before, after) in differences(first.scenario, second.scenario).items():
        console.print(f"{path}: {before} | {after}", highlight=False)


def print_chaos(outcomes: Sequence[Outcome]) -> None:
    """Prints a line a run; the first is the undisturbed one."""
    table = _table(None, "struck", "failed", "differing", "sent again", "seconds")
    for outcome in outcomes:
        struck = ", ".join(f"{count} {role}" for role, count in sorted(outcome.strikes.items()))
        table.add_row(
            struck or "nothing",
            str(outcome.failed),
            str(outcome.differing(outcomes[0])),
            str(outcome.retried),
            f"{outcome.seconds:.1f}",
        )
    Console().print(table)


def print_soak(endings: Mapping[str, int]) -> None:
    """Prints how often each ending was."""
    table = _table(None, "requests", "")
    for ending, count in endings.items():
        table.add_row(ending, str(count))
    Console().print(table)


def print_rows(
    title: str, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, tuple[str, str]]
) -> None:
    """Prints rows; ``columns`` has by heading the key of a row and its value's format."""
    table = _table(title, *columns)
    for row in rows:
        table.add_row(*(format(row[key], form) for key, form in columns.values()))
    Console().print(table)


def _table(title: str | None, *columns: str) -> Table:
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0), pad_edge=False
    )
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=index > 0)
    return table
