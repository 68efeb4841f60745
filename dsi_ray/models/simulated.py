"""A model whose forward is a timed wait: the paper's online experiment.

What it says and how long it takes are pure functions, so that a virtual-time driver, which does
not wait, uses the same numbers.
"""

import random
import sys
import threading
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import NamedTuple

from dsi_ray.config import Simulation
from dsi_ray.core.messages import Role
from dsi_ray.core.path import Path
from dsi_ray.models.base import CacheStats, Extension, ForwardCancelled, Forwarded, ModelInfo
from dsi_ray.models.hashing import GOLDEN, mix

_TOKEN, _ACCEPT, _OTHER = range(3)

# A timed wait on Linux ends this many seconds late (median of 1 ms waits).
_WAKE_UP = 0.00009


def _random(seed: int, trace: int, position: int, purpose: int) -> int:
    """64 bits that depend on all four numbers and nothing else (splitmix64)."""
    key = seed * 0xD1342543DE82EF95 + trace * 0xDA942042E4DD58B5
    state = key + position * 3 + purpose
    return mix(mix(state + GOLDEN) + GOLDEN)


def target_token(simulation: Simulation, position: int, trace: int = 0) -> int:
    """Returns the target's token at ``position``.

    It depends on nothing before it but ``trace``, the prompt's first token, so that prompts differ
    and any server says the same.
    """
    return _random(simulation.seed, trace, position, _TOKEN) % simulation.vocab_size


def is_accepted(simulation: Simulation, position: int, trace: int = 0) -> bool:
    """Returns whether the drafter's token at ``position`` is the target's."""
    return _random(simulation.seed, trace, position, _ACCEPT) < simulation.acceptance_rate * 2**64


def drafter_token(simulation: Simulation, position: int, trace: int = 0) -> int:
    """Returns the drafter's token at ``position``: the target's or surely another one."""
    token = target_token(simulation, position, trace)
    if is_accepted(simulation, position, trace):
        return token
    step = 1 + _random(simulation.seed, trace, position, _OTHER) % (simulation.vocab_size - 1)
    return (token + step) % simulation.vocab_size


class Share(NamedTuple):
    """One session's part of a forward.

    Attributes:
        computed: Number of tokens that the session's cache lacks.
        wanted: Number of tokens asked for; 0 is a prefill.
        first: Whether the session has computed nothing yet.
    """

    computed: int
    wanted: int
    first: bool


def forward_seconds(simulation: Simulation, batch: Iterable[Share]) -> float:
    """Returns how long a forward takes, without jitter.

    ``tpot_ms``, and ``per_token_ms`` for each token beyond ``knee_tokens``. With ``ttft_ms`` a
    prompt, of whatever length, adds ``ttft_ms - tpot_ms`` instead; without it its tokens count. A
    forward of nothing but prompts has no ``tpot_ms``: their first tokens will.
    """
    tokens = 0
    milliseconds = 0.0
    computes = False
    for computed, wanted, first in batch:
        if first and simulation.ttft_ms is not None:
            milliseconds += max(simulation.ttft_ms - simulation.tpot_ms, 0)
            tokens += wanted
        else:
            tokens += computed
        computes |= computed > 0 and (wanted > 0 or not first)
    milliseconds += simulation.per_token_ms * max(tokens - simulation.knee_tokens, 0)
    return (milliseconds + simulation.tpot_ms * computes) / 1000


def wait_until(deadline: float, stop: threading.Event) -> None:
    """Waits until `perf_counter` shows ``deadline``.

    Raises:
        ForwardCancelled: ``stop`` was set before.
    """
    if stop.is_set():
        raise ForwardCancelled
    while (left := deadline - perf_counter()) > _WAKE_UP:
        # A long wait ends later than a short one: it stops early, and a short one follows.
        if stop.wait(left * 0.97 - _WAKE_UP if left > 0.005 else left - _WAKE_UP):
            raise ForwardCancelled


class SimulatedModel:
    """Takes its time and says what `target_token` or `drafter_token` says.

    Target and drafter agree at the drafter's acceptance rate if both simulations have the same
    seed and vocabulary. There is no end-of-sequence token.
    """

    def __init__(self, simulation: Simulation, role: Role, index: int = 0) -> None:
        """``index`` is the server's: each draws its own jitter."""
        self._simulation = simulation
        self._token_at = target_token if role is Role.TARGET else drafter_token
        self._jitter = random.Random(f"{simulation.seed} {role} {index}")
        self._sessions: dict[str, Path] = {}
        self._computed = 0
        self._reused = 0

    @property
    def info(self) -> ModelInfo:
        """Facts about the model."""
        return ModelInfo(
            name="simulated",
            vocab_size=self._simulation.vocab_size,
            max_context=sys.maxsize,
            eos_ids=(),
            parameters=0,
            dtype="none",
            device="none",
            has_logits=False,
        )

    @property
    def cache_stats(self) -> CacheStats:
        """Counts what a KV cache would have computed and reused; it takes no bytes."""
        return CacheStats(
            sessions=len(self._sessions),
            computed_tokens=self._computed,
            reused_tokens=self._reused,
        )

    def cached(self, session: str, tokens: Sequence[int]) -> int:
        """Returns what the session has computed before."""
        return Path.of(tokens).common(self._sessions.get(session, Path()))

    def extend(
        self, batch: Sequence[Extension], stop: threading.Event
    ) -> list[Forwarded | Exception]:
        """Waits as long as the forward would take, then returns the tokens.

        Without logits there is nothing to sample from: how to sample has no effect.
        """
        began = perf_counter()
        shares = [self._share(part) for part in batch]
        seconds = forward_seconds(self._simulation, shares)
        if self._simulation.jitter:
            seconds *= max(self._jitter.gauss(1, self._simulation.jitter), 0)
        wait_until(began + seconds, stop)
        for part, share in zip(batch, shares, strict=True):
            self._sessions[part.session] = part.tokens
            self._computed += share.computed
            self._reused += len(part.tokens) - share.computed
        return [self._say(part) for part in batch]

    def _share(self, part: Extension) -> Share:
        kept = min(self.cached(part.session, part.tokens), part.start - 1)
        return Share(len(part.tokens) - kept, part.wanted, part.session not in self._sessions)

    def _say(self, part: Extension) -> Forwarded:
        positions = range(part.start, len(part.tokens) + 1)
        trace = part.tokens[0]
        return Forwarded([self._token_at(self._simulation, i, trace) for i in positions])

    def release(self, session: str) -> None:
        """Forgets the session; an unknown one is fine."""
        self._sessions.pop(session, None)
