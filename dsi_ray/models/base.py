"""What a model server needs of a model."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from sys import maxsize
from typing import Protocol

from dsi_ray.core.messages import TokenLogprobs
from dsi_ray.models.hashing import draw_seed
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
        has_logits: Whether it chooses its tokens from logits, as sampling needs.
    """

    name: str
    vocab_size: int
    max_context: int
    eos_ids: tuple[int, ...]
    parameters: int
    dtype: str
    device: str
    has_logits: bool = True


@dataclass(frozen=True, slots=True)
class CacheStats:
    """A model's KV cache at one moment. ``bytes`` is what the sessions hold."""

    sessions: int
    bytes: int
    evictions: int
    computed_tokens: int
    reused_tokens: int


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the tokens of one request are chosen, by its target and its drafters alike.

    Attributes:
        params: As the caller gave them.
        prompt_tokens: Length of the prompt; what follows it is output.
        end_ids: Ids that are not chosen among the first ``min_tokens``: the target's end of
            sequence, also where the request ignores it, and the caller's stop ids.
        seed: Of the noise, 64 bits with or without sign.
        vocab_size: Of the target: a drafter must not guess what the target does not know.
    """

    params: SamplingParams
    prompt_tokens: int
    end_ids: frozenset[int] = frozenset()
    seed: int = 0
    vocab_size: int = maxsize

    @classmethod
    def of(cls, params: SamplingParams, prompt_tokens: int, target: ModelInfo) -> "Sampling":
        """What a request's parameters mean to a target; draws a seed where one is needed."""
        seed = params.seed
        if seed is None:
            seed = 0 if params.is_greedy else draw_seed()
        end_ids = frozenset((*target.eos_ids, *params.stop_token_ids))
        return cls(params, prompt_tokens, end_ids, seed, target.vocab_size)

    @property
    def seed_in_use(self) -> int | None:
        """The seed that the tokens depend on; None for greedy decoding."""
        return None if self.params.is_greedy else self.seed

    @property
    def for_drafters(self) -> "Sampling":
        """The same choice; nobody asks drafters for log probabilities."""
        if self.params.logprobs is None:
            return self
        return replace(self, params=replace(self.params, logprobs=None))


@dataclass(frozen=True, slots=True)
class Forwarded:
    """What one forward gave.

    Attributes:
        tokens: The model's own tokens.
        logprobs: Of each of them, where the request asks for any; else empty.
    """

    tokens: Sequence[int]
    logprobs: Sequence[TokenLogprobs] = ()


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
        sampling: Sampling,
        stop: threading.Event,
    ) -> Forwarded:
        """Returns the model's own tokens at positions ``start .. len(tokens)``.

        The token at position ``i`` is conditioned on ``tokens[:i]``, so one forward over the part
        of ``tokens`` that the session's cache lacks gives them all. Positions before ``start``
        that are not cached are computed too, and not returned. ``start == len(tokens) + 1`` only
        fills the cache and returns no token. Fewer tokens may be returned by a model that
        has no opinion (a lookup without a match).

        Args:
            session: Key of the KV cache: the request.
            tokens: At least one id; prompt first.
            start: ``1 .. len(tokens) + 1``.
            sampling: How the request's tokens are chosen.
            stop: Looked at between layers; once it is set the forward ends at the next one.

        Raises:
            ForwardCancelled: ``stop`` was set in time. The cache holds what it held before, or a
                prefix of ``tokens``.
            ModelError: The request cannot be computed, or ``sampling`` leaves no token to choose.
        """

    def release(self, session: str) -> None:
        """Frees what the session holds; an unknown session is fine."""
