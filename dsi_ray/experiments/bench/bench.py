"""The bench: the same prompts through every algorithm, in turns, so that all meet one noise."""

import os
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import TypeAdapter

from dsi_ray.config import Algorithm, EngineConfig
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine
from dsi_ray.runtime.request import Decoding, RequestStats

_PACKAGES = ("dsi-ray", "ray", "torch", "transformers")


@dataclass(frozen=True, slots=True)
class BenchOutput:
    """What a contender made of one prompt; ``stats`` is None for those that keep none."""

    tokens: tuple[int, ...]
    seconds: float
    ttft_ms: float | None
    stats: RequestStats | None = None


class Contender(Protocol):
    """One way to generate."""

    @property
    def name(self) -> str:
        """For the table."""

    def __call__(self, prompt: Sequence[int], params: SamplingParams) -> BenchOutput:
        """Generates once."""


@dataclass(frozen=True, slots=True)
class EngineContender:
    """An engine with one choice of algorithm and lookahead."""

    name: str
    engine: Engine
    decoding: Decoding

    def __call__(self, prompt: Sequence[int], params: SamplingParams) -> BenchOutput:
        """Generates once."""
        completion = self.engine.generate(prompt, params, self.decoding)
        stats = completion.stats
        return BenchOutput(completion.tokens, stats.seconds, stats.ttft_ms, stats)


@dataclass(frozen=True, slots=True)
class Row:
    """One contender's sums over all prompts.

    Attributes:
        name: The contender.
        tokens: Generated tokens.
        seconds: All prompts together.
        tokens_per_second: The quotient of the two.
        ttft_ms: Mean time to the first token.
        tpot_ms: Mean time of each later token.
        acceptance_rate: Share of drafted positions where the target agreed.
        target_forwards: Forwards of target servers.
        cancelled_tasks: Tasks replaced or cancelled before their end.
        messages_per_token: What crossed a process, for each token.
        identical_tokens: Whether all outputs equal those of the first contender.
    """

    name: str
    tokens: int
    seconds: float
    tokens_per_second: float
    ttft_ms: float | None
    tpot_ms: float | None
    acceptance_rate: float | None
    target_forwards: int | None
    cancelled_tasks: int | None
    messages_per_token: float | None
    identical_tokens: bool


@dataclass(slots=True)
class Bench:
    """Runs contenders and keeps their outputs.

    Attributes:
        contenders: The first is the reference for identical tokens.
        prompts: Token ids.
        params: For every run.
    """

    contenders: Sequence[Contender]
    prompts: Sequence[Sequence[int]]
    params: SamplingParams
    _outputs: dict[str, list[BenchOutput]] = field(default_factory=dict)

    def run(self, progress: Callable[[], None] = lambda: None) -> list[Row]:
        """Runs everything once; ``progress`` is called after each generation."""
        warm_up = self.prompts[0]
        for contender in self.contenders:
            contender(warm_up, self.params)
            progress()
        for turn, prompt in enumerate(self.prompts):
            # Nobody always follows the same neighbour.
            for contender in rotate(self.contenders, turn):
                output = contender(prompt, self.params)
                self._outputs.setdefault(contender.name, []).append(output)
                progress()
        return [self._row(contender.name) for contender in self.contenders]

    @property
    def steps(self) -> int:
        """How often ``run`` reports progress."""
        return len(self.contenders) * (len(self.prompts) + 1)

    def _row(self, name: str) -> Row:
        outputs = self._outputs[name]
        reference = self._outputs[self.contenders[0].name]
        tokens = sum(len(output.tokens) for output in outputs)
        seconds = sum(output.seconds for output in outputs)
        firsts = [output.ttft_ms for output in outputs if output.ttft_ms is not None]
        later = tokens - len(outputs)
        stats = [output.stats for output in outputs if output.stats is not None]
        accepted = sum(s.accepted_tokens for s in stats)
        judged = accepted + sum(s.rejected_tokens for s in stats)
        return Row(
            name=name,
            tokens=tokens,
            seconds=seconds,
            tokens_per_second=tokens / seconds,
            ttft_ms=sum(firsts) / len(firsts) if firsts else None,
            tpot_ms=(seconds * 1e3 - sum(firsts)) / later if firsts and later else None,
            acceptance_rate=accepted / judged if judged else None,
            target_forwards=sum(s.target_forwards for s in stats) if stats else None,
            cancelled_tasks=sum(s.cancelled_tasks for s in stats) if stats else None,
            messages_per_token=sum(s.messages for s in stats) / tokens if stats else None,
            identical_tokens=all(
                ours.tokens == theirs.tokens
                for ours, theirs in zip(outputs, reference, strict=True)
            ),
        )


def baselines(
    engine: Engine, si_lookaheads: Sequence[int] = (), suffix: str = ""
) -> list[EngineContender]:
    """Non-SI, and SI with each lookahead or else with the planner's choice."""
    chosen: Sequence[int | Literal["auto"]] = si_lookaheads or ("auto",)
    si = [
        EngineContender(
            f"SI k={lookahead}{suffix}" if si_lookaheads else f"SI{suffix}",
            engine,
            Decoding(Algorithm.SI, lookahead),
        )
        for lookahead in chosen
    ]
    non_si = EngineContender(f"non-SI{suffix}", engine, Decoding(Algorithm.NON_SI))
    return [non_si, *si] if engine.config.drafters else [non_si]


def dsi(engine: Engine) -> EngineContender:
    """DSI as the engine's configuration says."""
    config = engine.config
    decoding = Decoding(Algorithm.DSI, config.lookahead, config.sp_degree)
    return EngineContender("DSI", engine, decoding)


def with_threads(config: EngineConfig, threads: int) -> EngineConfig:
    """The same group with this many torch threads in each server."""
    drafters = tuple(d.model_copy(update={"threads": threads}) for d in config.drafters)
    target = config.target.model_copy(update={"threads": threads})
    return config.model_copy(update={"target": target, "drafters": drafters})


def rotate(items: Sequence[Contender], by: int) -> list[Contender]:
    """The items, begun ``by`` places later."""
    by %= len(items)
    return [*items[by:], *items[:by]]


def report(rows: Sequence[Row], engine: Engine) -> dict[str, Any]:
    """All figures and the environment they come from, ready for JSON."""
    return {
        "rows": TypeAdapter(list[Row]).dump_python(list(rows)),
        "config": engine.config.model_dump(mode="json"),
        "environment": environment(),
    }


def environment() -> dict[str, Any]:
    """Versions, cores and commit: what a figure depends on."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cores": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "versions": {package: version(package) for package in _PACKAGES},
        "commit": _commit(),
    }


def _commit() -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
