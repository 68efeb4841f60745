"""How long a model's forwards take: measured before the first request."""

import statistics
import time

from dsi_ray.core.path import Path
from dsi_ray.models.base import Extension, LanguageModel, Sampling, extend_one
from dsi_ray.params import SamplingParams

_SESSION = ""
_FORWARDS = 5
_BATCHES = (4, 16, 64, 256)
"""Numbers of tokens in a forward: how much is computed beside a single token for little."""

_TRIALS = 2
_TOO_LONG = 8.0
"""A forward of this many times a single token's: larger ones need not be measured."""


def measure_forwards(model: LanguageModel) -> list[tuple[int, float]]:
    """Warms ``model`` up; returns seconds of a forward by the number of its tokens, 1 first."""
    tokens = [0]
    single = [_seconds(model, tokens, 1) for _ in range(_FORWARDS)]
    measured = [(1, statistics.median(single[1:]))]
    for count in _BATCHES:
        room = model.info.longest_text - len(tokens)
        if count * _TRIALS > room or measured[-1][1] > _TOO_LONG * measured[0][1]:
            break
        measured.append((count, min(_seconds(model, tokens, count) for _ in range(_TRIALS))))
    model.release(_SESSION)
    return measured


def _seconds(model: LanguageModel, tokens: list[int], count: int) -> float:
    """Of a forward of ``count`` more tokens; adds them to ``tokens``."""
    start = len(tokens) + 1
    tokens += [0] * count
    greedy = Sampling(SamplingParams(), len(tokens))
    started = time.perf_counter()
    extend_one(model, Extension(_SESSION, Path.of(tokens), start, greedy))
    return time.perf_counter() - started
