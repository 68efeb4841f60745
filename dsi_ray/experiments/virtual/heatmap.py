"""Figures 2 and 7 of the paper: speedups over drafter latency and acceptance rate.

In closed form over a fine grid, and in virtual time, by the very decoders, over a coarser one.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

from dsi_ray.core.decoders import Plan
from dsi_ray.core.planning.expected import Latencies
from dsi_ray.core.planning.performance_model import needed_sp_degree, smallest_lookahead
from dsi_ray.experiments.virtual.pair import Pair

SI_LOOKAHEADS = range(1, 201)
"""Among these SI has its best (section 4)."""

SP_DEGREE = 7
"""A node of eight devices, one of them for the drafter."""

_TEXT = 200
"""Tokens of a text in virtual time: long, as the closed form assumes."""

TOLERANCE = 1e-9
"""Below one by more than this is a slowdown."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Time of a token for one drafter, in target forwards.

    Attributes:
        drafter: Latency of the drafter.
        acceptance: Its acceptance rate.
        si: SI with its best lookahead, or the fixed one.
        dsi: DSI with the planner's lookahead, or the fixed one.
        dsi_equation_1: DSI with the smallest lookahead that satisfies Equation 1.
        si_lookahead: SI's.
        dsi_lookahead: DSI's.
        sp_degree: DSI's.
    """

    drafter: float
    acceptance: float
    si: float
    dsi: float
    dsi_equation_1: float
    si_lookahead: int
    dsi_lookahead: int
    sp_degree: int

    @property
    def speedups(self) -> dict[str, float]:
        """The four panels of Figure 2. Plain decoding takes 1."""
        return {
            "SI / non-SI": 1 / self.si,
            "DSI / SI": self.si / self.dsi,
            "DSI / non-SI": 1 / self.dsi,
            "DSI / min(SI, non-SI)": min(self.si, 1.0) / self.dsi,
        }

    def as_row(self) -> dict[str, float]:
        """All figures, for CSV and JSON."""
        return {**asdict(self), **self.speedups}


def closed_form(drafter: float, acceptance: float, lookahead: int | None = None) -> Cell:
    """One cell of Figure 2, or of Figure 7 with a fixed ``lookahead``.

    DSI has 7 target servers. There its lookahead is the best that is at most Equation 1's: a
    larger one only waits longer for drafts, a smaller one pays where runs of right drafts are
    short. For a fixed lookahead it has more servers where Equation 1 asks for them.
    """
    latencies = Latencies(1.0, drafter, acceptance)
    si_lookahead = lookahead or min(SI_LOOKAHEADS, key=latencies.si)
    sp_degree = SP_DEGREE
    if lookahead is not None:
        sp_degree = max(sp_degree, needed_sp_degree(1, drafter, lookahead))
    largest = lookahead or smallest_lookahead(1, drafter, sp_degree)
    dsi_lookahead = lookahead or _best(
        {k: latencies.dsi(k, sp_degree) for k in range(1, largest + 1)}
    )
    return Cell(
        drafter,
        acceptance,
        latencies.si(si_lookahead),
        latencies.dsi(dsi_lookahead, sp_degree),
        latencies.dsi(largest, sp_degree),
        si_lookahead,
        dsi_lookahead,
        sp_degree,
    )


def _best(seconds: dict[int, float]) -> int:
    """The lookahead that takes least; of equals the largest, which needs fewest messages."""
    least = min(seconds.values())
    return max(k for k, value in seconds.items() if value <= least * (1 + TOLERANCE))


@dataclass(frozen=True, slots=True)
class Comparison:
    """One cell by the decoders themselves, beside its closed form for the same texts.

    Attributes:
        closed_form: For the share of drafts that is right in these texts, and for their length.
        virtual_time: The mean of the texts.
    """

    closed_form: Cell
    virtual_time: Cell

    @property
    def differences(self) -> dict[str, float]:
        """Relative, panel by panel."""
        closed_form = self.closed_form.speedups
        return {
            panel: abs(closed_form[panel] / speedup - 1)
            for panel, speedup in self.virtual_time.speedups.items()
        }


def compare(cell: Cell, texts: int, seed: int) -> Comparison:
    """Decodes ``texts`` texts in virtual time with the lookaheads of ``cell``."""
    pair = Pair.of(1000, 1000 * cell.drafter, cell.acceptance, _TEXT, seed)

    def dsi(lookahead: int) -> float:
        plan = Plan(lookahead, run_ahead=_TEXT + lookahead)
        return _mean(pair.dsi(cell.sp_degree, plan, text).seconds for text in range(texts))

    equation_1 = smallest_lookahead(1, cell.drafter, cell.sp_degree)
    own = dsi(cell.dsi_lookahead)
    virtual = replace(
        cell,
        si=_mean(pair.si(cell.si_lookahead, text).seconds for text in range(texts)),
        dsi=own,
        dsi_equation_1=own if cell.dsi_lookahead == equation_1 else dsi(equation_1),
    )
    return Comparison(_of_texts(cell, pair.accepted_share(texts)), virtual)


def _of_texts(cell: Cell, acceptance: float) -> Cell:
    latencies = Latencies(1.0, cell.drafter, acceptance)
    token = latencies.dsi(cell.dsi_lookahead, cell.sp_degree)
    return replace(
        cell,
        acceptance=acceptance,
        si=latencies.si(cell.si_lookahead),
        # Nothing hides the last forward (Proposition 1).
        dsi=((_TEXT - 1) * token + 1) / _TEXT,
    )


def closed_form_grid(resolution: int, lookahead: int | None = None) -> list[Cell]:
    """``resolution`` drafter latencies up to 100 % by as many acceptance rates, and 0."""
    steps = range(resolution + 1)
    return [
        closed_form(drafter / resolution, acceptance / resolution, lookahead)
        for drafter in steps[1:]
        for acceptance in steps
    ]


def compare_grid(
    cells: Sequence[Cell], texts: int, seed: int, progress: Callable[[], None] = lambda: None
) -> list[Comparison]:
    """Compares all cells, in parallel processes."""
    with ProcessPoolExecutor() as pool:
        futures = [pool.submit(compare, cell, texts, seed) for cell in cells]
        for future in futures:
            future.add_done_callback(lambda _: progress())
        return [future.result() for future in futures]


def largest_differences(comparisons: Sequence[Comparison]) -> dict[str, float]:
    """Between closed form and virtual time, panel by panel."""
    return {
        panel: max(comparison.differences[panel] for comparison in comparisons)
        for panel in comparisons[0].differences
    }


def summary(cells: Sequence[Cell]) -> dict[str, Any]:
    """How many cells there are, and how many are slower than their baseline, panel by panel."""
    return {
        "cells": len(cells),
        "slower": {
            panel: sum(cell.speedups[panel] < 1 - TOLERANCE for cell in cells)
            for panel in cells[0].speedups
        },
        "slower_than_si_by_equation_1_alone": sum(
            cell.si / cell.dsi_equation_1 < 1 - TOLERANCE for cell in cells
        ),
    }


def _mean(seconds: Iterable[float]) -> float:
    values = list(seconds)
    return sum(values) / len(values) / _TEXT
