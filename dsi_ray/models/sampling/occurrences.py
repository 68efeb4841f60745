"""How often each id occurs in a request's text, counted on from where the text was last seen."""

import torch
from torch import Tensor

from dsi_ray.core.path import Path


class Occurrences:
    """Of one request on one server, which always asks with as many ids of a vocabulary."""

    def __init__(self) -> None:
        self._tallies: dict[int, _Tally] = {}

    def counts(self, path: Path, begin: int, first: int, scores: Tensor) -> Tensor:
        """Returns how often each id occurs in ``path[begin:]`` before each row.

        Args:
            path: Up to the last row's position.
            begin: First position that counts.
            first: Position of the first row.
            scores: Of shape (rows, vocabulary), as the result. A drafter may know fewer ids than
                the path has.
        """
        rows, vocab_size = scores.shape
        tally = self._tallies.setdefault(begin, _Tally(begin, scores))
        counts = scores.new_zeros(rows, vocab_size)
        counts[0] = tally.go_to(path.upto(first))
        # What stands at the first row's position counts from the row behind it on, and so on.
        new = enumerate(path[first:], first)
        cells = [
            (place + 1 - first) * vocab_size + token
            for place, token in new
            if place >= begin and token < vocab_size
        ]
        _add(counts.view(-1), cells, 1)
        return counts.cumsum(0)


class _Tally:
    """Counts of the ids from position ``begin`` on, in a text that grows and is taken back."""

    def __init__(self, begin: int, scores: Tensor) -> None:
        self._begin = begin
        self._path = Path()
        self._counts = scores.new_zeros(scores.shape[1])

    def go_to(self, path: Path) -> Tensor:
        """The counts of ``path``: (vocabulary,)."""
        since = max(self._path.common(path), self._begin)
        for tokens, times in ((self._path[since:], -1), (path[since:], 1)):
            _add(self._counts, [token for token in tokens if token < len(self._counts)], times)
        self._path = path
        return self._counts


def _add(counts: Tensor, cells: list[int], times: int) -> None:
    if cells:
        where = torch.tensor(cells, device=counts.device)
        counts.scatter_add_(0, where, counts.new_full(where.shape, times))
