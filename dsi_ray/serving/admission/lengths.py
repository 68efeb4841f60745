"""How long outputs are likely to be: what memory to keep for one that may become much longer."""

import math
from collections import deque

_REMEMBERED = 256
_SHARE = 0.9
"""Of the outputs seen lately, as many are no longer than what is kept for the next one."""

_FIRST_GUESS = 512


class OutputLengths:
    """The lengths of the last outputs.

    Few outputs become as long as they may. To keep memory for all of that would have one request
    without ``max_tokens`` keep out all others; who becomes longer than was likely, where memory is
    short, makes those wait who came later.
    """

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=_REMEMBERED)

    def note(self, tokens: int) -> None:
        """Takes note of an output that has ended."""
        self._last.append(tokens)

    def likely(self, max_tokens: int) -> int:
        """Returns how long an output of at most ``max_tokens`` is likely to become."""
        if not self._last:
            return min(max_tokens, _FIRST_GUESS)
        longest = sorted(self._last)[math.ceil(_SHARE * len(self._last)) - 1]
        return min(max_tokens, longest)
