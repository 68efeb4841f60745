"""One request's place in its guide, which goes wherever the request's paths lead."""

from collections.abc import Sequence

import numpy
import torch
from llguidance import LLMatcher
from numpy.typing import NDArray
from torch import Tensor

from dsi_ray.core.path import Path
from dsi_ray.models.base import RequestTooHard
from dsi_ray.models.guided.words import DEAD_END, limit

_NOTHING = Path()


class Walker:
    """Follows a request's output token by token, back too."""

    def __init__(
        self, matcher: LLMatcher, end_ids: frozenset[int], width: int, prompt: Path = _NOTHING
    ) -> None:
        """Starts before the first token of the output.

        Args:
            matcher: At its beginning; it belongs to the walker.
            end_ids: The ids that end the text: allowed wherever it may end, and nowhere else
                unless the guide has them as text.
            width: Number of ids to tell of.
            prompt: What all paths of the request begin with; the output follows.
        """
        self._start = matcher
        self._matcher = matcher.deep_copy()
        self._end_ids = end_ids
        self._ends = sorted(token for token in end_ids if token < width)
        self._width = width
        self._prompt = self._walked = prompt

    def allowed(self, tokens: Sequence[int], rows: int) -> Tensor:
        """Returns what may come at the last ``rows`` positions, up to the one after ``tokens``.

        Rows of the prompt, and those after a token that ends the text or that the guide
        forbids, allow everything: such a token is never the target's own, or is its last.

        Returns:
            Booleans of shape (rows, width).

        Raises:
            RequestTooHard: The guide takes too much to follow.
        """
        # Not torch's: it would spread these few bits over threads, for a hundred times the time.
        allowed = numpy.ones((rows, self._width), numpy.bool_)
        path = Path.of(tokens)
        first = len(path) + 1 - rows
        for length in range(max(first, len(self._prompt)), len(path) + 1):
            if not self._go(path.upto(length)):
                break
            self._fill(allowed[length - first])
        return torch.from_numpy(allowed)

    def _go(self, path: Path) -> bool:
        """Goes behind the last token of ``path``; tells whether a way leads there."""
        kept = self._walked.common(path)
        if kept < len(self._walked):
            self._matcher.rollback(len(self._walked) - kept)
        steps = list(path[kept:])
        end = next((i for i, token in enumerate(steps) if self._ends_at(token)), len(steps))
        taken: int = self._matcher.try_consume_tokens(steps[:end])
        self._walked = path.upto(kept + taken)
        self._check()
        return len(self._walked) == len(path)

    def _ends_at(self, token: int) -> bool:
        """Whether a path stops there, as it does at what only another model knows."""
        return token in self._end_ids or token >= self._width

    def _fill(self, row: NDArray[numpy.bool_]) -> None:
        bits = numpy.frombuffer(self._matcher.compute_bitmask(), numpy.uint8)
        if self._matcher.get_error().startswith(DEAD_END):
            # The vocabulary lacks a byte. A matcher does not come back from there.
            self._matcher, self._walked = self._start.deep_copy(), self._prompt
            bits = numpy.zeros_like(bits)
        self._check()
        row[:] = numpy.unpackbits(bits, count=self._width, bitorder="little")
        if self._matcher.is_accepting() or not row.any():
            row[self._ends] = True
        if not row.any():
            # A drafter that does not know how to end: the target will.
            row.fill(True)

    def _check(self) -> None:
        if self._matcher.is_error():
            raise RequestTooHard(
                f"this form cannot be enforced any further: {limit(self._matcher.get_error())}",
                "guide",
            )
