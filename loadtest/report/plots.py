"""The figures of the page."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from loadtest.record import Record
from loadtest.report.theme import FAILED, colours, drawing
from loadtest.summary import Point, Summary
from loadtest.table import find

Groups = Mapping[str, Sequence[Record]]
"""The records of each point."""

_MOST_DOTS = 2000


def plots(summary: Summary, groups: Groups) -> list[str]:
    """Draws a run; each figure is an SVG element."""
    return [*(_sweep(summary) if len(summary.points) > 1 else ()), *_loads(groups)]


def _loads(groups: Groups) -> Iterator[str]:
    good = {
        name: [record for record in records if record.error is None]
        for name, records in groups.items()
    }
    yield _spread("Time to first token", {n: [r.ttft_s for r in g] for n, g in good.items()})
    yield _spread("Time per output token", {n: [r.tpot_s for r in g] for n, g in good.items()})
    yield _spread("End to end", {n: [r.e2e_s for r in g] for n, g in good.items()})
    yield _latency_over_time(groups)
    yield _at_once(
        "In flight", {n: [(r.sent_s, r.end_s) for r in records] for n, records in groups.items()}
    )
    yield _tokens_over_time(good)
    if any(record.sent_s - record.scheduled_s > 0.1 for g in groups.values() for record in g):
        yield _at_once(
            "Due and not yet sent",
            {n: [(r.scheduled_s, r.sent_s) for r in records] for n, records in groups.items()},
        )


def _spread(title: str, seconds: Mapping[str, Iterable[float | None]]) -> str:
    with drawing(title, "ms", "share of requests") as figure:
        for (name, values), colour in zip(seconds.items(), colours(len(seconds)), strict=True):
            known = [1e3 * value for value in values if value is not None]
            if known:
                figure.axes.ecdf(known, label=name, color=colour)
        figure.axes.set_ylim(0, 1)
        figure.axes.set_xlim(left=0)
    return figure.svg


def _latency_over_time(groups: Groups) -> str:
    with drawing("End to end, by the time when it was due", "s", "ms") as figure:
        failed: list[Record] = []
        for (name, records), colour in zip(groups.items(), colours(len(groups)), strict=True):
            good = _thinned([record for record in records if record.error is None])
            failed += [record for record in records if record.error is not None]
            figure.axes.plot(
                [record.scheduled_s for record in good],
                [1e3 * record.e2e_s for record in good],
                ".",
                label=name if len(groups) > 1 else "answered",
                color=colour,
                markersize=4,
            )
        if failed:
            shown = _thinned(failed)
            figure.axes.plot(
                [record.scheduled_s for record in shown],
                [1e3 * record.e2e_s for record in shown],
                "x",
                label="failed",
                color=FAILED,
                markersize=5,
            )
        figure.axes.set_ylim(bottom=0)
    return figure.svg


def _tokens_over_time(groups: Groups) -> str:
    """Each piece of a text counts as an equal part of its tokens."""
    with drawing("Output tokens over time", "s", "tokens/s") as figure:
        for (name, records), colour in zip(groups.items(), colours(len(groups)), strict=True):
            times = [time for record in records for time in record.chunks_s]
            tokens = [
                (record.completion_tokens or 0) / len(record.chunks_s)
                for record in records
                for _ in record.chunks_s
            ]
            seconds = range(math.ceil(max(times, default=1)) + 1)
            figure.axes.hist(
                times, seconds, weights=tokens, histtype="step", label=name, color=colour
            )
    return figure.svg


def _thinned(records: Sequence[Record]) -> Sequence[Record]:
    return records[:: len(records) // _MOST_DOTS + 1]


def _at_once(title: str, spans: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    with drawing(title, "s", "requests") as figure:
        for (name, pairs), colour in zip(spans.items(), colours(len(spans)), strict=True):
            steps = sorted(step for begin, end in pairs for step in ((begin, 1), (end, -1)))
            figure.axes.step(
                [time for time, _ in steps],
                list(accumulate(change for _, change in steps)),
                where="post",
                label=name,
                color=colour,
                linewidth=1.2,
            )
        figure.axes.set_ylim(bottom=0)
    return figure.svg


_CURVES = {
    ("Time to first token", "ms"): {
        "p50": "figures.ttft_ms.p50",
        "p99": "figures.ttft_ms.p99",
    },
    ("Time per output token", "ms"): {
        "p50": "figures.tpot_ms.p50",
        "p99": "figures.tpot_ms.p99",
    },
    ("Output tokens", "tokens/s"): {"throughput": "figures.output_tokens_per_s"},
    ("Requests", "requests/s"): {
        "answered": "figures.requests_per_s",
        "goodput": "figures.goodput.requests_per_s",
    },
}
"""By title and unit, the lines of each figure over the sweep."""


def _sweep(summary: Summary) -> Iterator[str]:
    assert summary.scenario.sweep is not None
    parameter = summary.scenario.sweep.parameter.rpartition(".")[2]
    values = summary.scenario.sweep.values
    is_number = all(isinstance(value, int | float) for value in values)
    for (title, unit), lines in _CURVES.items():
        with drawing(f"{title} by {parameter}", parameter, unit) as figure:
            for (label, path), colour in zip(lines.items(), colours(len(lines)), strict=True):
                heights = _heights(summary.points, path)
                places = values if is_number else range(len(values))
                figure.axes.plot(places, heights, "o-", label=label, color=colour)
            if not is_number:
                figure.axes.set_xticks(range(len(values)), [str(value) for value in values])
            figure.axes.set_ylim(bottom=0)
        yield figure.svg


def _heights(points: Sequence[Point], path: str) -> list[float]:
    values = (find(point, path) for point in points)
    return [float("nan") if value is None else value for value in values]
