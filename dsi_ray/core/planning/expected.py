"""Expected time of a token, in closed form: what a planner compares.

Each draft is accepted with the same probability, latencies are constant, messages free and the
text long. A *run* is what lies between two rejections: ``n`` accepted drafts with probability
``a ** n * (1 - a)``, then a token of the target's own (Timor et al., ICLR 2025, appendix E).
"""

import itertools
import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ForwardCost:
    """How long a forward takes by the number of its tokens, all requests together.

    Attributes:
        points: Numbers of tokens, rising, with seconds.
    """

    points: tuple[tuple[int, float], ...]

    def __call__(self, tokens: float) -> float:
        """Seconds, on straight lines through the points; before the first as at the first."""
        (at, seconds), slope = self.points[0], 0.0
        for (x, y), (next_x, next_y) in itertools.pairwise(self.points):
            if x <= tokens:
                # What is measured is noisy; more tokens never take less time.
                (at, seconds), slope = (x, y), max(0.0, (next_y - y) / (next_x - x))
        return seconds + slope * max(0, tokens - at)


@dataclass(frozen=True, slots=True)
class Latencies:
    """What a closed form takes: latencies in any unit, and the acceptance rate."""

    target: float
    drafter: float
    acceptance: float

    def non_si(self) -> float:
        """Plain decoding: a target forward a token."""
        return self.target

    def si(self, lookahead: int) -> float:
        """SI: ``lookahead`` drafts and a target forward commit a geometric number of tokens."""
        turn = lookahead * self.drafter + self.target
        return turn / self.tokens(lookahead)

    def tokens(self, lookahead: int) -> float:
        """How many tokens the verification of ``lookahead`` drafts commits."""
        return self._geometric_sum(lookahead + 1)

    def dsi(self, lookahead: int, sp_degree: int) -> float:
        """DSI with several target servers.

        Every run begins with the target's own forward. The drafts that follow are verified block
        by block. A block waits until it is drafted, and longer where Equation 1 does not hold: for
        the server that began ``sp_degree`` blocks before. Where a block takes longer to draft than
        a target forward, the target goes on alone until it comes. With one server, see
        :meth:`dsi_single`.
        """
        if sp_degree == 1:
            return self.dsi_single()
        a, block = self.acceptance, lookahead * self.drafter
        within = sum(a**i * min(i * self.target, block) for i in range(1, lookahead))
        drafting = (1 - a) * within + a**lookahead * min(lookahead * self.target, block)
        missing = max(0.0, self.target - sp_degree * block)
        waiting = a ** ((sp_degree - 1) * lookahead + 1) * missing
        return (
            (1 - a) * self.target
            + drafting / self._geometric_sum(lookahead)
            + waiting / self._geometric_sum(sp_degree * lookahead)
        )

    def dsi_single(self, first_block: int = 0, depth: float = math.inf) -> float:
        """DSI with one target server, which verifies whatever is drafted when it is free.

        Args:
            first_block: After a rejection this many drafts replace the target's own forward, as
                in SI; 0 lets it run to its end.
            depth: Most drafts in a block.
        """
        block = max(1.0, min(depth, self.target / self.drafter))
        later = self.target / self._geometric_sum(block)
        if not first_block:
            return (1 - self.acceptance) * self.target + self.acceptance * later
        begin = (1 - self.acceptance) * (self.target + first_block * self.drafter)
        return begin + self.acceptance ** (first_block + 1) * later

    def drafted_share(self, depth: int) -> float:
        """Which share of the forwards of :meth:`dsi_single` verifies ``depth`` drafts.

        The others are those after a rejection.
        """
        verifying = self.acceptance / self._geometric_sum(max(1, depth))
        return verifying / (1 - self.acceptance + verifying)

    def _geometric_sum(self, terms: float) -> float:
        """``1 + a + a ** 2 + ...``; a part of a term counts between its neighbours."""
        a = self.acceptance
        return terms if a == 1 else (1 - a**terms) / (1 - a)
