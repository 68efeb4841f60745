"""Table 2 of the paper, its ten pairs on real Ray actors, beside the bounds in virtual time.

All three algorithms are measured on the same actors and texts. SI gets the lookahead that is best
for it, also where messages take time.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from operator import truediv
from statistics import fmean, median
from typing import Any

from dsi_ray.config import Algorithm, Simulation
from dsi_ray.experiments.virtual.pair import Pair

SP_DEGREE = 7
TOKENS = 50
SI_LOOKAHEADS = range(1, 11)
PAPER_SI_LOOKAHEADS = (1, 5, 10)
_MESSAGE_MS = 1.0
"""Of a message, in choosing the lookahead of the SI that is measured: about what Ray takes."""


@dataclass(frozen=True, slots=True)
class PaperRow:
    """A row of Table 2: milliseconds of a forward, and DSI / SI as the paper measured it."""

    target: str
    drafter: str
    dataset: str
    target_ms: float
    drafter_ms: float
    acceptance: float
    dsi_over_si: float | None = None

    def pair(self, seed: int = 0, tokens: int = TOKENS) -> Pair:
        """With the time to the first token: about 1.2 forwards, 5 for the long prompts."""
        ttft = 5.0 if self.dataset == "CNN-DM" else 1.2
        return Pair(
            Simulation(tpot_ms=self.target_ms, ttft_ms=ttft * self.target_ms, seed=seed),
            Simulation(
                tpot_ms=self.drafter_ms,
                ttft_ms=ttft * self.drafter_ms,
                acceptance_rate=self.acceptance,
                seed=seed,
            ),
            tokens,
        )


PAPER_ROWS = (
    PaperRow("Starcoder-15B", "Starcoder-168M", "HumanEval", 20.6, 6.8, 0.93, 1.92),
    PaperRow("Starcoder-15B", "Starcoder-168M", "MBPP", 21.0, 6.8, 0.90, 1.66),
    PaperRow("Phi3-14B", "Phi3-4B", "Alpaca", 49.6, 33.4, 0.87, 1.60),
    PaperRow("Phi3-14B", "Phi3-4B", "HumanEval", 52.1, 34.0, 0.95, 1.41),
    PaperRow("Phi3-14B", "Phi3-4B", "CNN-DM", 52.4, 34.6, 0.93, 1.39),
    PaperRow("Phi3-14B", "Phi3-4B", "MBPP", 52.2, 34.3, 0.94, 1.37),
    PaperRow("Vicuna-13B", "Vicuna-68M", "CNN-DM", 37.7, 2.5, 0.63, 1.47),
    PaperRow("Vicuna-13B", "Vicuna-68M", "Alpaca", 33.3, 2.5, 0.58, 1.41),
    PaperRow("Vicuna-7B", "Vicuna-68M", "CNN-DM", 29.4, 2.5, 0.67, 1.29),
    PaperRow("Vicuna-7B", "Vicuna-68M", "Alpaca", 26.0, 2.5, 0.59, 1.70),
)


TODAY_ROWS = tuple(
    PaperRow("of today", "a tenth", f"{target_ms} ms", target_ms, target_ms / 10, 0.8)
    for target_ms in (12, 8, 6)
)
"""What GPU engines of 2026 take for a forward of 7 to 70 billion parameters; not in the paper."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A row in virtual time without messages: mean seconds of a text.

    Attributes:
        non_si: Plain decoding.
        si: SI with the best lookahead of 1 .. 10 for these texts.
        si_paper: SI with the best of 1, 5 and 10, as in the paper.
        dsi: Of each text: the zero-overhead bound.
        si_lookahead: The best lookahead where messages take time.
    """

    non_si: float
    si: float
    si_paper: float
    dsi: tuple[float, ...]
    si_lookahead: int

    @property
    def dsi_mean(self) -> float:
        """Seconds of a text in the mean."""
        return fmean(self.dsi)


def bound(row: PaperRow, traces: int, seed: int = 0, tokens: int = TOKENS) -> Bound:
    """The row in virtual time."""
    pair = row.pair(seed, tokens)
    plan = pair.pace.plan(SP_DEGREE)
    si = _si(pair, traces)
    slow_si = _si(replace(pair, message=_MESSAGE_MS / 1000), traces)
    return Bound(
        non_si=pair.non_si().seconds,
        si=min(si.values()),
        si_paper=min(si[lookahead] for lookahead in PAPER_SI_LOOKAHEADS),
        dsi=tuple(pair.dsi(SP_DEGREE, plan, trace).seconds for trace in range(traces)),
        si_lookahead=min(slow_si, key=lambda lookahead: slow_si[lookahead]),
    )


def _si(pair: Pair, traces: int) -> dict[int, float]:
    """Mean seconds of a text by lookahead."""
    return {
        lookahead: fmean(pair.si(lookahead, trace).seconds for trace in range(traces))
        for lookahead in SI_LOOKAHEADS
    }


def measure_row(
    row: PaperRow,
    traces: int,
    seed: int = 0,
    tokens: int = TOKENS,
    progress: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """The row on real actors, beside its bound and the paper's figure.

    ``progress`` is called after each text: those of DSI, then those of SI.
    """
    from dsi_ray.experiments.online.online import dsi, engine, measure
    from dsi_ray.runtime.request import Decoding

    pair = row.pair(seed, tokens)
    ideal = bound(row, traces, seed, tokens)
    with engine(pair, SP_DEGREE) as running:
        measured = measure(running, pair, dsi(SP_DEGREE), traces, progress)
        decoding = Decoding(Algorithm.SI, ideal.si_lookahead)
        si = measure(running, pair, decoding, traces, progress).mean
        # Plain decoding takes the same time for every text.
        non_si = measure(running, pair, Decoding(Algorithm.NON_SI), 2).mean
    return {
        **asdict(row),
        "non_si_s": non_si,
        "si_s": si,
        "si_lookahead": ideal.si_lookahead,
        "dsi_s": measured.mean,
        "non_si_bound_s": ideal.non_si,
        "si_bound_s": ideal.si,
        "si_paper_bound_s": ideal.si_paper,
        "dsi_bound_s": ideal.dsi_mean,
        "measured_over_bound": median(map(truediv, measured.seconds, ideal.dsi)),
        "measured_dsi_over_si": si / measured.mean,
        "measured_dsi_over_si_bound": ideal.si / measured.mean,
        "measured_dsi_over_non_si": non_si / measured.mean,
        "bound_dsi_over_si": ideal.si / ideal.dsi_mean,
        "messages_per_token": measured.messages_per_token,
        "cpu_ms_per_token": measured.cpu_ms_per_token,
    }
