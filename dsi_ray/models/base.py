"""What a model server needs of a model."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from sys import maxsize
from typing import Protocol

from dsi_ray.core.messages import TokenLogprobs
from dsi_ray.core.path import Path
from dsi_ray.models.hashing import draw_seed
from dsi_ray.params import SamplingParams


class ForwardCancelled(Exception):
    """The forward was stopped before its end; the session's cache is consistent."""


class DeviceLost(RuntimeError):
    """The device computes nothing any more: this process has to end, so that another can."""


class NoRoom(Exception):
    """The KV cache has no room for a session beside those that come before it in the batch."""


class ModelError(ValueError):
    """A model cannot be used as asked. The message says what, and what to do."""


class RequestTooHard(ModelError):
    """A request asks for more than can be computed, which showed only when it had begun.

    Attributes:
        param: The field that asks for it.
    """

    def __init__(self, message: str, param: str) -> None:
        super().__init__(message)
        self.param = param


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
        kv_bytes_per_token: What a token takes in the KV cache, on each device; 0 without one.
        kv_capacity: Number of tokens that the KV cache's budget holds.
        context_reason: Why ``max_context`` is less than the configuration names, where it is.
        sampling_defaults: Sampling parameters that the checkpoint recommends, by name.
    """

    name: str
    vocab_size: int
    max_context: int
    eos_ids: tuple[int, ...]
    parameters: int
    dtype: str
    device: str
    has_logits: bool = True
    kv_bytes_per_token: int = 0
    kv_capacity: int = maxsize
    context_reason: str = ""
    sampling_defaults: tuple[tuple[str, float], ...] = ()

    @property
    def longest_text(self) -> int:
        """Most tokens, prompt and output, of a text that it can compute."""
        return min(self.max_context, self.kv_capacity)


@dataclass(frozen=True, slots=True)
class CacheStats:
    """A model's KV cache at one moment, and what it has done since the start.

    Attributes:
        sessions: Number of sessions that have not been released.
        bytes: What these hold; what several share counts once.
        cached_bytes: What released sessions left, for others with the same prefix.
        budget_bytes: What all that may take; 0 for a model without a cache.
        evictions: Number of blocks that released sessions left and that made room for others.
        preemptions: Number of sessions whose cache made room before they were released.
        computed_tokens: Tokens that were computed.
        reused_tokens: Tokens that a forward found in its own session's cache.
        shared_tokens: Tokens that a forward found in another session's cache.
    """

    sessions: int = 0
    bytes: int = 0
    cached_bytes: int = 0
    budget_bytes: int = 0
    evictions: int = 0
    preemptions: int = 0
    computed_tokens: int = 0
    reused_tokens: int = 0
    shared_tokens: int = 0


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
        rejection: Drafts are verified by rejection sampling; never with greedy decoding.
        drafts: These are a drafter's tokens, for such a verification: each is reported with the
            distribution that it was drawn from.
    """

    params: SamplingParams
    prompt_tokens: int
    end_ids: frozenset[int] = frozenset()
    seed: int = 0
    vocab_size: int = maxsize
    rejection: bool = False
    drafts: bool = False

    @classmethod
    def of(
        cls,
        params: SamplingParams,
        prompt_tokens: int,
        target: ModelInfo,
        *,
        rejection: bool = False,
    ) -> "Sampling":
        """What a request's parameters mean to a target; draws a seed where one is needed."""
        seed = params.seed
        if seed is None:
            seed = 0 if params.is_greedy else draw_seed()
        end_ids = frozenset((*target.eos_ids, *params.stop_token_ids))
        rejection = rejection and not params.is_greedy
        return cls(params, prompt_tokens, end_ids, seed, target.vocab_size, rejection)

    @property
    def seed_in_use(self) -> int | None:
        """The seed that gives the same tokens again.

        None for greedy decoding, and for rejection sampling: there the tokens also depend on which
        positions were drafted in time.
        """
        return None if self.params.is_greedy or self.rejection else self.seed

    @property
    def for_drafters(self) -> "Sampling":
        """The same choice, as drafts; nobody asks drafters for log probabilities."""
        if self.params.logprobs is None and not self.rejection:
            return self
        return replace(self, params=replace(self.params, logprobs=None), drafts=self.rejection)


@dataclass(frozen=True, slots=True)
class Extension:
    """One session's part of a forward: the model's own tokens at ``start .. len(tokens)``.

    The token at position ``i`` is conditioned on ``tokens[:i]``, so one forward over the part of
    ``tokens`` that the session's cache lacks gives them all. Positions before ``start`` that are
    not cached are computed too, and not returned.

    Attributes:
        session: Key of the KV cache: the request.
        tokens: At least one id; prompt first. Any ids are taken, and kept as a path.
        start: ``1 .. len(tokens) + 1``; the last wants no token and only fills the cache.
        sampling: How the request's tokens are chosen.
        proposals: What a drafter drew at each position from ``start`` on, empty where it drew
            nothing; or none at all. Only rejection sampling looks at them.
    """

    session: str
    tokens: Path
    start: int
    sampling: Sampling
    proposals: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", Path.of(self.tokens))

    @property
    def wanted(self) -> int:
        """Number of tokens asked for."""
        return len(self.tokens) + 1 - self.start


@dataclass(frozen=True, slots=True)
class Forwarded:
    """What one forward gave.

    Attributes:
        tokens: The model's own tokens.
        logprobs: Of each of them, where the request asks for any; else empty.
        proposals: Of each of them, where they are drafts for rejection sampling; else empty.
    """

    tokens: Sequence[int]
    logprobs: Sequence[TokenLogprobs] = ()
    proposals: Sequence[bytes] = ()


class LanguageModel(Protocol):
    """A causal model with a KV cache per session. Used by one thread at a time."""

    @property
    def info(self) -> ModelInfo:
        """Facts about the model; constant."""

    @property
    def cache_stats(self) -> CacheStats:
        """The KV cache now."""

    def cached(self, session: str, tokens: Sequence[int]) -> int:
        """Returns how many of ``tokens``, from the first on, need not be computed.

        The session's own cache may hold them, or another's that begins alike.
        """

    def extend(
        self, batch: Sequence[Extension], stop: threading.Event
    ) -> list[Forwarded | Exception]:
        """Computes one forward for several sessions.

        A part that cannot be computed (an id that the model lacks, too many tokens, parameters
        that leave no token to choose) does not touch the others. Fewer tokens than wanted may be
        returned by a model that has no opinion (a lookup without a match).

        Args:
            batch: At least one part, each of another session. Where the KV cache is too small for
                all, the first ones have it.
            stop: Looked at between layers; once it is set the forward ends at the next one.

        Returns:
            For each part its tokens, or the exception that it caused: `ModelError` for a request
            that cannot be computed, `NoRoom` for one that has to wait. The first part never waits.

        Raises:
            ForwardCancelled: ``stop`` was set in time. Each part's cache holds what it held
                before, or a prefix of its tokens.
            DeviceLost: No forward will ever succeed again in this process.
        """

    def release(self, session: str) -> None:
        """Frees what the session holds; an unknown session is fine."""


def extend_one(
    model: LanguageModel, part: Extension, stop: threading.Event | None = None
) -> Forwarded:
    """Computes a forward for one session alone.

    Raises:
        ForwardCancelled: ``stop`` was set in time.
        ModelError: The request cannot be computed.
    """
    (found,) = model.extend([part], stop or threading.Event())
    if isinstance(found, Exception):
        raise found
    return found
