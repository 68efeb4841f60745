"""Prompt lookup: a drafter without weights that copies what followed the same words before."""

import sys
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from dsi_ray.core.path import Path
from dsi_ray.models.base import CacheStats, Extension, ForwardCancelled, Forwarded, ModelInfo


class NgramIndex:
    """Where each n-gram of one growing and rewinding sequence ends, for n = 1 .. ``longest``."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._tokens = Path()
        self._indexed = 0
        self._ends: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)

    def move_to(self, tokens: Path) -> None:
        """Makes ``tokens`` the sequence; costs what changed since the last call."""
        kept = min(self._tokens.common(tokens), self._indexed)
        for end in range(self._indexed, kept, -1):
            for ngram in self._ngrams(end):
                self._ends[ngram].pop()
        self._tokens = tokens
        # The last n-gram has no follower yet: it is left out until there is one.
        for end in range(kept + 1, len(tokens)):
            for ngram in self._ngrams(end):
                self._ends[ngram].append(end)
        self._indexed = max(kept, len(tokens) - 1)

    def follower(self, position: int) -> int | None:
        """Returns the token after the last earlier match of the longest n-gram before ``position``.

        None if not even the token before ``position`` occurred earlier.
        """
        for ngram in reversed(self._ngrams(position)):
            ends = self._ends.get(ngram, [])
            earlier = bisect_left(ends, position)
            if earlier:
                return self._tokens[ends[earlier - 1]]
        return None

    def _ngrams(self, end: int) -> list[tuple[int, ...]]:
        """The n-grams that end before position ``end``, shortest first."""
        longest = self._tokens[max(0, end - self._longest) : end]
        return [longest[-length:] for length in range(1, len(longest) + 1)]


class LookupModel:
    """Drafts the token that followed the most recent occurrence of the longest n-gram.

    It has no opinion where the text does not repeat itself: `extend` then returns fewer tokens.
    """

    def __init__(self, ngram: int) -> None:
        self._ngram = ngram
        self._sessions: dict[str, NgramIndex] = {}

    @property
    def info(self) -> ModelInfo:
        """Facts about the model; ``vocab_size`` 0 stands for any vocabulary."""
        return ModelInfo(
            name="lookup",
            vocab_size=0,
            max_context=sys.maxsize,
            eos_ids=(),
            parameters=0,
            dtype="none",
            device="none",
            has_logits=False,
        )

    @property
    def cache_stats(self) -> CacheStats:
        """The number of sessions; a lookup computes and reuses nothing."""
        return CacheStats(sessions=len(self._sessions))

    def cached(self, session: str, tokens: Sequence[int]) -> int:
        """All of them: a lookup computes nothing."""
        return len(tokens)

    def extend(
        self, batch: Sequence[Extension], stop: threading.Event
    ) -> list[Forwarded | Exception]:
        """Returns each part's guesses at ``start .. len(tokens)``, up to the first without a match.

        A text repeats itself at any temperature: how to sample has no effect.
        """
        if stop.is_set():
            raise ForwardCancelled
        return [self._guess(part) for part in batch]

    def _guess(self, part: Extension) -> Forwarded:
        index = self._sessions.setdefault(part.session, NgramIndex(self._ngram))
        index.move_to(part.tokens)
        guesses: list[int] = []
        for position in range(part.start, len(part.tokens) + 1):
            guess = index.follower(position)
            if guess is None:
                break
            guesses.append(guess)
        return Forwarded(guesses)

    def release(self, session: str) -> None:
        """Forgets the session's index; an unknown session is fine."""
        self._sessions.pop(session, None)
