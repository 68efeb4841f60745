"""DSI against batched SI and batched non-SI on the same devices, from idle to saturation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsi_ray.experiments.plots import pyplot
from dsi_ray.experiments.virtual.batched import serve_batched
from dsi_ray.experiments.virtual.node import SimulatedNode, Visit, poisson, serve_dsi

LOADS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 4.0)
"""Arrival rates, as parts of what plain decoding could serve at most."""

SYSTEMS = ("non-SI", "SI", "DSI")


@dataclass(frozen=True, slots=True)
class LoadRow:
    """One load, and what the requests got of each system.

    Attributes:
        load: Arrival rate, as a part of what plain decoding could serve at most.
        requests_per_second: The arrival rate itself.
        latency_s: Mean time from a request's arrival to its last token, by system.
        tokens_per_second: From the first arrival to the last token, by system.
    """

    load: float
    requests_per_second: float
    latency_s: dict[str, float]
    tokens_per_second: dict[str, float]

    def as_row(self) -> dict[str, Any]:
        """Flat, for tables and files."""
        best = max(self.tokens_per_second[system] for system in SYSTEMS[:-1])
        row: dict[str, Any] = {"load": self.load, "requests_per_second": self.requests_per_second}
        for system in SYSTEMS:
            row[f"{system} latency_s"] = self.latency_s[system]
            row[f"{system} tokens_per_second"] = self.tokens_per_second[system]
        dsi = self.latency_s["DSI"]
        return row | {
            "DSI/non-SI latency": dsi / self.latency_s["non-SI"],
            "DSI/SI latency": dsi / self.latency_s["SI"],
            "DSI/best throughput": self.tokens_per_second["DSI"] / best,
        }


def measure(
    node: SimulatedNode,
    requests: int,
    seed: int = 0,
    step: Callable[[], None] = lambda: None,
    loads: Sequence[float] = LOADS,
) -> list[LoadRow]:
    """Serves ``requests`` Poisson arrivals at each load; calls ``step`` after each system's run."""
    capacity = _capacity(node)
    rows = []
    for load in loads:
        visits = poisson(load * capacity, requests, seed)
        ends: dict[str, dict[int, float]] = {}
        for system in SYSTEMS:
            if system == "DSI":
                ends[system] = serve_dsi(node, visits)
            else:
                ends[system] = serve_batched(node, visits, drafts=system == "SI")
            step()
        rows.append(
            LoadRow(
                load,
                load * capacity,
                {system: _latency(visits, end) for system, end in ends.items()},
                {system: _rate(visits, end) for system, end in ends.items()},
            )
        )
    return rows


def draw(file: Path, title: str, rows: Sequence[LoadRow]) -> None:
    """Writes latency and throughput over the arrival rate; the file's suffix chooses the format."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    rates = [row.requests_per_second for row in rows]
    for system, colour in zip(SYSTEMS, ("#888888", "#d98a1f", "#2457c5"), strict=True):
        style = {"color": colour, "marker": "o", "markersize": 4, "label": system}
        left.plot(rates, [row.latency_s[system] for row in rows], **style)
        right.plot(rates, [row.tokens_per_second[system] for row in rows], **style)
    for ax, label in ((left, "mean latency of a request, s"), (right, "tokens a second")):
        ax.set_xscale("log")
        ax.set_xlabel("requests a second")
        ax.set_ylabel(label)
        ax.set_ylim(bottom=0)
        ax.grid(alpha=0.3)
        ax.legend(frameon=False)
    figure.suptitle(title)
    figure.savefig(file, dpi=150)
    plt.close(figure)


def _capacity(node: SimulatedNode) -> float:
    """Requests a second that plain decoding could serve with all slots in use and no prompts."""
    lengths = [visit.tokens for visit in poisson(1.0, 1000)]
    forwards = 1000 / node.target.tpot_ms
    return node.devices * node.slots * forwards / (sum(lengths) / len(lengths))


def _latency(visits: Sequence[Visit], ends: dict[int, float]) -> float:
    return sum(ends[visit.trace] - visit.time for visit in visits) / len(visits)


def _rate(visits: Sequence[Visit], ends: dict[int, float]) -> float:
    tokens = sum(visit.tokens for visit in visits)
    return tokens / (max(ends.values()) - visits[0].time)
