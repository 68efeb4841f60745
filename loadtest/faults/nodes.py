"""Servers on two nodes: is DSI never slower when messages take milliseconds?

The study runs a driver for each delay, inside the first node's network namespace: this module as a
script, which prints a row of JSON a line.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dsi_ray.config import Algorithm, EngineConfig
from dsi_ray.experiments.online.online import dsi
from dsi_ray.experiments.virtual.pair import Pair, prompt
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine
from dsi_ray.runtime.ray.cluster import connect
from dsi_ray.runtime.request import Decoding
from loadtest.errors import LoadTestError
from loadtest.faults.netns import HOSTS, bytes_exchanged, round_trip
from loadtest.faults.ray_nodes import ADDRESS, LABEL, SIDES, two_nodes

TARGET_MS = 30.0
DRAFTERS = ((3.0, 0.9), (10.0, 0.3), (30.0, 0.0))
"""Milliseconds and acceptance rates: a good one, a poor one and a useless one."""

SP_DEGREES = (1, 3)
LAYOUTS = ("apart", "spread")
"""The drafter, and the coordinator with it, are on the near node. All target servers are on the far
one, or one is near and two are far."""

ROWS = len(SP_DEGREES) + 1
"""Of a delay and a drafter: a spread group is only measured with all its target servers."""

Drafters = Sequence[tuple[float, float]]


def study(
    delays_ms: Sequence[float],
    texts: int,
    tokens: int,
    seed: int = 0,
    step: Callable[[], None] = lambda: None,
    drafters: Drafters = DRAFTERS,
) -> list[dict[str, Any]]:
    """Rows for each delay, drafter, layout and SP degree; calls ``step`` after each.

    Args:
        delays_ms: What the network adds to a packet, either way.
        texts: Of a row.
        tokens: In each text.
        seed: Of the acceptance traces.
        step: For a progress bar.
        drafters: Milliseconds and acceptance rates.

    Raises:
        LoadTestError: There can be no network namespaces here.
        LoadTestError: A run failed.
    """
    rows: list[dict[str, Any]] = []
    with two_nodes() as link:
        for delay_ms in delays_ms:
            link.delay(delay_ms / 1000)
            size = {"texts": texts, "tokens": tokens, "seed": seed, "drafters": drafters}
            driver = [sys.executable, "-m", "loadtest.faults.nodes", json.dumps(size)]
            with link.start(0, driver, stdout=subprocess.PIPE) as process:
                for line in process.stdout or ():
                    rows.append({"delay_ms": delay_ms, **json.loads(line)})
                    step()
            if process.returncode:
                raise LoadTestError(f"the run with a delay of {delay_ms:g} ms failed")
    return rows


def measure_rows(
    texts: int, tokens: int, seed: int, drafters: Drafters
) -> Iterator[dict[str, Any]]:
    """The rows of the delay that there is now. It must run on the near node."""
    round_trip_ms = round_trip(HOSTS[1]) * 1000
    connect(ADDRESS)
    for drafter_ms, acceptance in drafters:
        pair = Pair.of(TARGET_MS, drafter_ms, acceptance, tokens, seed)
        for layout in LAYOUTS:
            with Engine(_config(pair, layout)) as engine:
                # The only server of a request of a spread group may be either.
                sp_degrees = SP_DEGREES if layout == "apart" else SP_DEGREES[-1:]
                for row in _measure(engine, pair, sp_degrees, texts):
                    yield {"round_trip_ms": round_trip_ms, "layout": layout, **row}


@dataclass(slots=True)
class _Total:
    """What the texts of one way to decode took."""

    seconds: float = 0.0
    messages: float = 0.0
    bytes: int = 0


def _measure(
    engine: Engine, pair: Pair, sp_degrees: Sequence[int], texts: int
) -> Iterator[dict[str, Any]]:
    (group,) = asyncio.run(engine.status())["groups"]
    decodings = [Decoding(Algorithm.NON_SI), *map(dsi, sp_degrees)]
    _decode_in_turns(engine, pair, decodings, range(texts, texts + 1))  # Warms everything up.
    non_si, *all_dsi = _decode_in_turns(engine, pair, decodings, range(texts))
    tokens = texts * pair.tokens
    for sp_degree, total in zip(sp_degrees, all_dsi, strict=True):
        yield {
            "message_ms": group["message_ms"],
            "drafter_ms": pair.drafter.tpot_ms,
            "acceptance": pair.drafter.acceptance_rate,
            "sp_degree": sp_degree,
            "non_si_tokens_per_second": tokens / non_si.seconds,
            "dsi_tokens_per_second": tokens / total.seconds,
            "dsi_over_non_si": non_si.seconds / total.seconds,
            "messages_per_token": total.messages / tokens,
            "bytes_per_token": total.bytes / tokens,
        }


def _decode_in_turns(
    engine: Engine, pair: Pair, decodings: Sequence[Decoding], traces: range
) -> list[_Total]:
    """Each text in each way before the next, so that all meet the same noise."""
    params = SamplingParams(max_tokens=pair.tokens, ignore_eos=True)
    totals = [_Total() for _ in decodings]
    for trace in traces:
        for decoding, total in zip(decodings, totals, strict=True):
            before = bytes_exchanged()
            stats = engine.generate(prompt(trace), params, decoding).stats
            total.seconds += stats.seconds
            total.messages += stats.messages
            total.bytes += bytes_exchanged() - before
    return totals


def _config(pair: Pair, layout: str) -> EngineConfig:
    far = {"labels": {LABEL: SIDES[1]}} if layout == "apart" else {"num_gpus": 1}
    return EngineConfig.model_validate(
        {
            "target": {"model": "simulated", "simulation": pair.target, **far},
            "drafters": [
                {
                    "model": "simulated",
                    "simulation": pair.drafter,
                    "labels": {LABEL: SIDES[0]},
                }
            ],
            "sp_degree": max(SP_DEGREES),
            "address": ADDRESS,
        }
    )


def main() -> None:
    """Prints the rows."""
    for row in measure_rows(**json.loads(sys.argv[1])):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
