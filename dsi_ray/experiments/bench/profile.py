"""Measures a pair of models through an engine: what the planner needs to know."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from statistics import mean, median, quantiles, stdev
from typing import Any

import yaml

from dsi_ray.config import Algorithm, EngineConfig
from dsi_ray.core.planning.performance_model import PerformanceModel, largest_useful_sp_degree
from dsi_ray.demo import DRAFTER_DIR
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine
from dsi_ray.runtime.request import Decoding

PROMPT_LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128)
SI_LOOKAHEAD = 8
"""Drafts of a turn by which acceptance is measured."""

_REPEATS = 5


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds of a model as a client sees them.

    Attributes:
        ttft: Median time to the first token.
        tpot: Median time of each later token.
        p95: 95 of 100 later tokens take at most this.
        jitter: Standard deviation of the later tokens' times over their mean.
        by_tokens: Median time to the first token by prompt length.
    """

    ttft: float
    tpot: float
    p95: float
    jitter: float
    by_tokens: dict[int, float]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """How many drafts are right.

    Attributes:
        geometric: The paper's fit, ``1 - 1 / (1 + n)`` for ``n`` accepted drafts a turn.
        by_position: Share of the drafts at each place of a turn that are right, of those that
            were reached; places that no turn reached are left out.
    """

    geometric: float
    by_position: tuple[float, ...]

    @classmethod
    def of(cls, accepted: Sequence[int]) -> "Acceptance":
        """From the numbers of drafts that turns accepted."""
        by_position = []
        for place in range(SI_LOOKAHEAD):
            reached = sum(count >= place for count in accepted)
            if reached:
                by_position.append(sum(count > place for count in accepted) / reached)
        return cls(1 - 1 / (1 + mean(accepted)), tuple(by_position))


@dataclass(frozen=True, slots=True)
class Profile:
    """What was measured of a pair, and what follows."""

    target: Timing
    drafter: Timing
    acceptance: Acceptance

    @property
    def pace(self) -> PerformanceModel:
        """For the planner; a client's times include messages."""
        rate = self.acceptance.geometric
        return PerformanceModel(self.target.tpot, self.drafter.tpot, 0.0, rate, rate)

    def config(self, measured: EngineConfig, servers: int) -> str:
        """YAML for ``serve`` and ``bench``: the models, and at most ``servers`` target servers."""
        useful = largest_useful_sp_degree(self.target.tpot, self.drafter.tpot)
        sp_degree = min(servers, useful)
        settings = measured.model_dump(mode="json", exclude_defaults=True)
        settings |= {
            "target": measured.target.model_dump(mode="json", exclude_defaults=True),
            "drafters": [
                drafter.model_dump(mode="json", exclude_defaults=True)
                for drafter in measured.drafters
            ],
            "sp_degree": sp_degree,
            "lookahead": "auto",
        }
        plan = self.pace.plan(sp_degree)
        head = (
            f"# Measured: target {self.target.tpot:.2f} ms, drafter {self.drafter.tpot:.2f} ms a "
            f"token, {self.acceptance.geometric:.0%} of drafts accepted.\n"
            f"# At SP {sp_degree} the lookahead begins at {plan.lookahead} and follows what is "
            "measured.\n"
        )
        return head + yaml.safe_dump(settings, sort_keys=False)


def profile(config: EngineConfig, prompts: Sequence[str], max_tokens: int) -> Profile:
    """Measures target and drafter one after the other, then how often they agree."""
    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    with Engine(_smallest(config)) as engine:
        tokens = [engine.tokenizer.encode(prompt) for prompt in prompts]
        target = _timing(engine, tokens, params)
        accepted = [
            count for prompt in tokens for count in asyncio.run(_turns(engine, prompt, params))
        ]
    with Engine(drafter_alone(config)) as engine:
        drafter = _timing(engine, tokens, params)
    return Profile(target, drafter, Acceptance.of(accepted))


def drafter_alone(config: EngineConfig) -> EngineConfig:
    """The first drafter as a target that nobody guesses for."""
    drafter = config.drafters[0].model_copy(update={"own_process": True})
    if drafter.model == "demo":
        # In a target's place this name would mean the demo target.
        drafter = drafter.model_copy(update={"model": str(DRAFTER_DIR)})
    alone = {"target": drafter, "drafters": (), "algorithm": Algorithm.NON_SI}
    return _smallest(config).model_copy(update=alone)


def _smallest(config: EngineConfig) -> EngineConfig:
    return config.model_copy(update={"sp_degree": 1, "num_groups": 1})


def as_json(measured: Profile) -> dict[str, Any]:
    """All figures."""
    from dataclasses import asdict

    return asdict(measured)


def _timing(engine: Engine, prompts: Sequence[Sequence[int]], params: SamplingParams) -> Timing:
    asyncio.run(_intervals(engine, prompts[0], params))
    runs = [asyncio.run(_intervals(engine, prompt, params)) for prompt in prompts]
    later = [seconds * 1000 for run in runs for seconds in run[1:]]
    one = SamplingParams(max_tokens=1, ignore_eos=True)
    text = [token for prompt in prompts for token in prompt]
    by_tokens = {
        length: median(
            engine.generate(text[i : i + length], one, Decoding(Algorithm.NON_SI)).stats.ttft_ms
            for i in range(_REPEATS)
        )
        for length in PROMPT_LENGTHS
        if length + _REPEATS <= min(len(text), engine.max_model_len - 1)
    }
    return Timing(
        ttft=median(run[0] * 1000 for run in runs),
        tpot=median(later),
        p95=quantiles(later, n=20)[-1],
        jitter=stdev(later) / mean(later),
        by_tokens=by_tokens,
    )


async def _intervals(engine: Engine, prompt: Sequence[int], params: SamplingParams) -> list[float]:
    """Seconds to the first token, then of each later one."""
    seconds = []
    began = time.perf_counter()
    async with aclosing(engine.stream(prompt, params, Decoding(Algorithm.NON_SI))) as chunks:
        async for chunk in chunks:
            if chunk.tokens:
                now = time.perf_counter()
                # Tokens that came together share the time.
                seconds += [(now - began) / len(chunk.tokens)] * len(chunk.tokens)
                began = now
    return seconds


async def _turns(engine: Engine, prompt: Sequence[int], params: SamplingParams) -> list[int]:
    """How many drafts each turn of SI accepted; the last, cut short, is left out."""
    counts = []
    decoding = Decoding(Algorithm.SI, SI_LOOKAHEAD)
    async with aclosing(engine.stream(prompt, params, decoding)) as chunks:
        async for chunk in chunks:
            if chunk.tokens:
                counts.append(len(chunk.tokens) - 1)
    return counts[:-1] or counts
