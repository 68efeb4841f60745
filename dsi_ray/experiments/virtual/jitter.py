"""Noisy target latencies: a lookahead that follows what is measured against every fixed one."""

from dataclasses import dataclass, replace
from typing import Any

from dsi_ray.core.decoders import Plan
from dsi_ray.core.planning.performance_model import PerformanceModel
from dsi_ray.experiments.online.paper_table import PaperRow

LOOKAHEADS = range(1, 7)
_RUN_AHEAD = 64


@dataclass(frozen=True, slots=True)
class JitterRow:
    """Mean seconds of a text in virtual time.

    Attributes:
        row: The pair.
        jitter: Relative standard deviation of target forwards.
        adaptive: With the planner at work, which begins without knowing the acceptance rate.
        fixed: By lookahead.
    """

    row: PaperRow
    jitter: float
    adaptive: float
    fixed: dict[int, float]

    @property
    def best(self) -> int:
        """The fixed lookahead that takes least, known only afterwards."""
        return min(self.fixed, key=lambda lookahead: self.fixed[lookahead])

    @property
    def adaptive_over_best(self) -> float:
        """What not knowing it costs."""
        return self.adaptive / self.fixed[self.best]

    def as_row(self) -> dict[str, Any]:
        """All figures, for CSV and JSON."""
        return {
            "target": self.row.target,
            "dataset": self.row.dataset,
            "jitter": self.jitter,
            "adaptive_s": self.adaptive,
            "best_lookahead": self.best,
            "adaptive_over_best": self.adaptive_over_best,
            **{f"lookahead_{k}_s": seconds for k, seconds in self.fixed.items()},
        }


def study(row: PaperRow, jitter: float, sp_degree: int, traces: int, seed: int = 0) -> JitterRow:
    """One pair with noise on the target; every text meets the same noise."""
    pair = row.pair(seed)
    pair = replace(pair, target=pair.target.model_copy(update={"jitter": jitter}))
    pace = PerformanceModel(row.target_ms / 1000, row.drafter_ms / 1000)
    adaptive = [pair.adaptive(sp_degree, trace, pace).seconds for trace in range(traces)]
    fixed = {
        lookahead: sum(
            pair.dsi(sp_degree, Plan(lookahead, _RUN_AHEAD), trace).seconds
            for trace in range(traces)
        )
        / traces
        for lookahead in LOOKAHEADS
    }
    return JitterRow(row, jitter, sum(adaptive) / traces, fixed)
