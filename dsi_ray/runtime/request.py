"""One request, as callers of an engine see it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dsi_ray.config import Algorithm, EngineConfig, Verification
from dsi_ray.core.messages import FinishReason, TokenLogprobs
from dsi_ray.models.base import Sampling
from dsi_ray.params import SamplingParams


@dataclass(frozen=True, slots=True)
class Decoding:
    """How one request is decoded: the time it takes depends on it.

    The tokens do not, unless drafts are verified by rejection sampling: then their distribution
    does not.
    """

    algorithm: Algorithm
    lookahead: int | Literal["auto"] = "auto"
    sp_degree: int = 1
    verification: Verification = Verification.EXACT

    @classmethod
    def default(cls, config: EngineConfig) -> "Decoding":
        """What the configuration of an engine says."""
        return cls(config.algorithm, config.lookahead, config.sp_degree, config.verification)

    @property
    def rejection(self) -> bool:
        """Whether there are drafts, verified by rejection sampling."""
        return self.verification is Verification.REJECTION and self.algorithm != Algorithm.NON_SI


@dataclass(frozen=True, slots=True)
class Generation:
    """A request on its way to the coordinator.

    Attributes:
        id: Unique among the requests in flight.
        prompt: At least one token id.
        stop_ids: Ids that end the text: the target's end of sequence and the caller's.
        sampling: How its tokens are chosen.
        decoding: How to decode.
    """

    id: str
    prompt: Sequence[int]
    stop_ids: frozenset[int]
    sampling: Sampling
    decoding: Decoding

    @property
    def params(self) -> SamplingParams:
        """As the caller gave them."""
        return self.sampling.params


@dataclass(frozen=True, slots=True)
class RequestStats:
    """What a request took.

    Attributes:
        prompt_tokens: Tokens of the prompt.
        completion_tokens: Committed tokens.
        seconds: From the coordinator's receipt to the last commit.
        ttft_ms: To the first commit.
        tpot_ms: Mean time of each later token.
        drafted_tokens: Tokens that drafters guessed.
        accepted_tokens: Committed tokens that a drafter had guessed.
        rejected_tokens: Committed tokens in whose place drafters had guessed others only.
        target_forwards: Forwards of target servers that ran to their end.
        drafter_forwards: Forwards of drafters that were reported.
        cancelled_tasks: Tasks that were replaced or cancelled before their end.
        messages: What crossed a process for this request: calls, their replies, items of event
            streams and cancellations. What was for several requests counts in parts.
        seed: With which the same request gives the same tokens again, given or drawn; None where
            decoding was greedy, or drafts were verified by rejection sampling.
        acceptance_histogram: How many runs of 0, 1, 2, ... accepted tokens there were, each up to a
            token that no drafter had guessed; empty without drafts.
    """

    prompt_tokens: int
    completion_tokens: int
    seconds: float
    ttft_ms: float
    tpot_ms: float
    drafted_tokens: int
    accepted_tokens: int
    rejected_tokens: int
    target_forwards: int
    drafter_forwards: int
    cancelled_tasks: int
    messages: float
    seed: int | None = None
    acceptance_histogram: tuple[int, ...] = ()

    @property
    def acceptance_rate(self) -> float | None:
        """Share of guessed positions where the target agreed; None without drafts."""
        judged = self.accepted_tokens + self.rejected_tokens
        return self.accepted_tokens / judged if judged else None

    @property
    def messages_per_token(self) -> float:
        """Messages per committed token."""
        return self.messages / self.completion_tokens


def histogram(runs: Sequence[int]) -> tuple[int, ...]:
    """Counts the runs of :class:`TokenTree` by length; the last, open one only if it has begun."""
    closed = runs if runs[-1] else runs[:-1]
    counts = Counter(closed)
    return tuple(counts[length] for length in range(max(closed, default=-1) + 1))


@dataclass(frozen=True, slots=True)
class TokenChunk:
    """Tokens committed together; ``finish_reason`` and ``stats`` come with the last.

    ``logprobs`` has one entry for each token where the request asks for them, else none.
    """

    tokens: tuple[int, ...]
    finish_reason: FinishReason | None = None
    stats: RequestStats | None = None
    logprobs: tuple[TokenLogprobs, ...] = ()


def join(chunks: Sequence[TokenChunk]) -> TokenChunk:
    """All chunks of a finished request as one."""
    return TokenChunk(
        tuple(token for chunk in chunks for token in chunk.tokens),
        chunks[-1].finish_reason,
        chunks[-1].stats,
        tuple(entry for chunk in chunks for entry in chunk.logprobs),
    )


@dataclass(frozen=True, slots=True)
class Chunk:
    """New text and the tokens behind it; ``finish_reason`` and ``stats`` come with the last.

    ``logprobs`` has one entry for each token where the request asks for them, else none;
    ``offsets`` says where each token begins in the whole text, in characters.
    """

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason | None = None
    stats: RequestStats | None = None
    logprobs: tuple[TokenLogprobs, ...] = ()
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole generation; ``logprobs`` as in :class:`Chunk`."""

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    stats: RequestStats
    logprobs: tuple[TokenLogprobs, ...] = ()
