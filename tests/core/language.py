"""Targets and drafters without weights: every token is a hash of the whole prefix.

The whole prefix, so that a wrong path gives other tokens: a server that was fed a token that is not
committed cannot give the right text by luck of position.
"""

import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.messages import FinishReason
from dsi_ray.core.server.session import ForwardStep
from dsi_ray.experiments.virtual.virtual_time import VirtualModel

Prefix = tuple[int, ...]


def chance(seed: int, prefix: Prefix) -> float:
    """A number in [0, 1) that depends on every token of ``prefix``."""
    checksum = zlib.crc32(bytes(prefix), seed)
    return (checksum * 2654435761 % 2**32) / 2**32


@dataclass(frozen=True, slots=True)
class Language:
    """A target: its own token after a prefix."""

    seed: int
    vocabulary: int

    def __call__(self, prefix: Prefix) -> int:
        return int(chance(self.seed, prefix) * self.vocabulary)


@dataclass(frozen=True, slots=True)
class Guesser:
    """A drafter: right with probability ``acceptance``, silent unless it has an ``opinion``."""

    target: Language
    seed: int
    acceptance: float
    opinion: float = 1.0

    def __call__(self, prefix: Prefix) -> int:
        own = self.target(prefix)
        right = chance(self.seed, prefix) < self.acceptance
        return own if right else (own + 1) % self.target.vocabulary

    def is_silent(self, prefix: Prefix) -> bool:
        """Whether it has nothing to say after ``prefix``, like a lookup without a match."""
        return chance(self.seed + 1, prefix) >= self.opinion


class GuesserModel(VirtualModel):
    """A model server's view of a :class:`Guesser`: fewer tokens than asked when it is silent.

    It must never be asked about more tokens than its ``context`` holds.
    """

    def __init__(
        self, guesser: Guesser, latency: Callable[[ForwardStep], float], context: int = sys.maxsize
    ) -> None:
        super().__init__(guesser, latency)
        object.__setattr__(self, "context", context)

    def tokens(self, step: ForwardStep) -> list[int]:
        """The own tokens of one forward, up to where the drafter falls silent."""
        assert isinstance(self.own, Guesser)
        assert len(step.tokens) <= vars(self)["context"], "asked beyond the context"
        prefixes = [step.tokens[:i] for i in range(step.start, len(step.tokens) + 1)]
        silent = (i for i, prefix in enumerate(prefixes) if self.own.is_silent(prefix))
        return [self.own(prefix) for prefix in prefixes[: next(silent, len(prefixes))]]


def plain_text(
    own: Callable[[Prefix], int], prompt: Prefix, criteria: StopCriteria
) -> tuple[list[int], FinishReason]:
    """The text that the target alone decodes, and why it ends: the oracle of every decoder."""
    text: list[int] = []
    while len(text) < criteria.max_tokens:
        text.append(own((*prompt, *text)))
        if text[-1] in criteria.stop_ids:
            return text, FinishReason.STOP
    return text, FinishReason.LENGTH
