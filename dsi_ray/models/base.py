"""What a model server needs of a model."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dsi_ray.params import SamplingParams


class ForwardCancelled(Exception):
    """The forward was stopped before its end; the session's cache is consistent."""


class ModelError(ValueError):
    """A model cannot be used as asked. The message says what, and what to do."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What the rest of the system needs to know of a model.

    Attributes:
        name: For people: directory, hub id or kind.
        vocab_size: Number of token ids that the tokenizer can produce (padding rows excluded
            where the tokenizer tells).
        max_context: Largest number of tokens, prompt and output, that the model takes.
        eos_ids: The ids that end a text.
        parameters: Number of parameters; 0 for a model without weights.
        dtype: Of the computation.
        device: ``cpu``, ``cuda:0``, or ``none``.
    """

    name: str
    vocab_size: int
    max_context: int
    eos_ids: tuple[int, ...]
    parameters: int
    dtype: str
    device: str


@dataclass(frozen=True, slots=True)
class CacheStats:
    """A model's KV cache at one moment. ``bytes`` is what the sessions hold."""

    sessions: int
    bytes: int
    evictions: int
    computed_tokens: int
    reused_tokens: int


class LanguageModel(Protocol):
    """A causal model with a KV cache per session. Used by one thread at a time."""

    @property
    def info(self) -> ModelInfo:
        """Facts about the model; constant."""

    @property
    def cache_stats(self) -> CacheStats:
        """The KV cache now."""

    def extend(
        self,
        session: str,
        tokens: Sequence[int],
        start: int,
        params: SamplingParams,
        stop: threading.Event,
    ) -> list[int]:
        """Returns the model's own tokens at positions ``start .. len(tokens)``.

        The token at position ``i`` is conditioned on ``tokens[:i]``, so one forward over the part
        of ``tokens`` that the session's cache lacks gives them all. Positions before ``start``
        that are not cached are computed too, and not returned. ``start == len(tokens) + 1`` only
        fills the cache and returns an empty list. Fewer tokens may be returned by a model that
        has no opinion (a lookup without a match).

        Args:
            session: Key of the KV cache: the request.
            tokens: At least one id; prompt first.
            start: ``1 .. len(tokens) + 1``.
            params: Sampling parameters of the request.
            stop: Looked at between layers; once it is set the forward ends at the next one.

        Raises:
            ForwardCancelled: ``stop`` was set in time. The cache holds what it held before, or a
                prefix of ``tokens``.
        """

    def release(self, session: str) -> None:
        """Frees what the session holds; an unknown session is fine."""
