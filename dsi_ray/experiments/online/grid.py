"""The never-slower check on real Ray actors: good and bad drafters, fast and slow ones."""

from collections.abc import Callable, Iterator
from typing import Any

from dsi_ray.config import Algorithm
from dsi_ray.core.planning.expected import Latencies
from dsi_ray.experiments.online.online import cluster, dsi, engine, measure
from dsi_ray.experiments.virtual.pair import Pair
from dsi_ray.runtime.request import Decoding

DRAFTERS = (0.05, 0.2, 0.5, 0.8, 1.0)
ACCEPTANCES = (0.0, 0.2, 0.5, 0.8, 0.95)
SP_DEGREES = (1, 2, 7)
_SI_LOOKAHEADS = range(1, 11)


def measure_grid(
    target_ms: float,
    traces: int,
    seed: int,
    tokens: int,
    progress: Callable[[], None] = lambda: None,
) -> list[dict[str, Any]]:
    """A row for each drafter, acceptance rate and SP degree.

    DSI, plain decoding, and SI with the lookahead that is best in the closed form, all on the same
    actors. SI fails where its closed form says so: chance has no part in that.
    """
    with cluster():
        return [
            cell
            for drafter in DRAFTERS
            for acceptance in ACCEPTANCES
            for cell in _cells(
                Pair.of(target_ms, drafter * target_ms, acceptance, tokens, seed), traces, progress
            )
        ]


def _cells(pair: Pair, traces: int, progress: Callable[[], None]) -> Iterator[dict[str, Any]]:
    """All SP degrees with one group of servers."""
    drafter = pair.drafter.tpot_ms / pair.target.tpot_ms
    acceptance = pair.drafter.acceptance_rate
    latencies = Latencies(1.0, drafter, acceptance)
    lookahead = min(_SI_LOOKAHEADS, key=latencies.si)
    with engine(pair, max(SP_DEGREES)) as running:
        non_si = measure(running, pair, Decoding(Algorithm.NON_SI), traces).mean
        si = measure(running, pair, Decoding(Algorithm.SI, lookahead), traces).mean
        for sp_degree in SP_DEGREES:
            measured = measure(running, pair, dsi(sp_degree), traces)
            progress()
            yield {
                "drafter": drafter,
                "acceptance": acceptance,
                "sp_degree": sp_degree,
                "non_si_s": non_si,
                "si_s": si,
                "si_lookahead": lookahead,
                "dsi_s": measured.mean,
                "dsi_over_non_si": non_si / measured.mean,
                "dsi_over_si": si / measured.mean,
                "si_fails": latencies.si(lookahead) > latencies.non_si(),
                "messages_per_token": measured.messages_per_token,
            }
