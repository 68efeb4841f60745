"""Two runs side by side."""

from collections.abc import Iterator
from typing import Any

from loadtest.errors import LoadTestError
from loadtest.scenario import Scenario
from loadtest.summary import Point, Summary
from loadtest.table import CLIENT, DISTRIBUTIONS, SERVER, Row

_DISTRIBUTED = tuple(row for rows in DISTRIBUTIONS.values() for row in rows)


def pairs(first: Summary, second: Summary) -> list[tuple[Point, Point]]:
    """Returns the points that have the same name, or the only ones of both.

    Raises:
        LoadTestError: There are none.
    """
    theirs = {point.name: point for point in second.points}
    same = [(point, theirs[point.name]) for point in first.points if point.name in theirs]
    if not same and len(first.points) == len(second.points) == 1:
        return [(first.points[0], second.points[0])]
    if not same:
        raise LoadTestError("the runs have no point in common: were they the same sweep?")
    return same


def compared(first: Point, second: Point) -> Iterator[tuple[Row, float | None]]:
    """Yields the figures that both points have, each with the second's over the first's."""
    for row in (*CLIENT, *_DISTRIBUTED, *SERVER):
        ours, theirs = row.value(first), row.value(second)
        if ours is not None and theirs is not None:
            yield row, theirs / ours if ours else None


def differences(first: Scenario, second: Scenario) -> dict[str, tuple[Any, Any]]:
    """Returns the settings in which two scenarios differ, by path."""
    ours, theirs = dict(_settings(first)), dict(_settings(second))
    return {
        path: (ours.get(path), theirs.get(path))
        for path in sorted({*ours, *theirs} - {"description"})
        if ours.get(path) != theirs.get(path)
    }


def _settings(scenario: Scenario) -> Iterator[tuple[str, Any]]:
    return _flat(scenario.model_dump(mode="json"), "")


def _flat(data: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
