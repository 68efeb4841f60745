"""Expected time of a token, in closed form: what a planner compares.

Each draft is accepted with the same probability, latencies are constant, messages free and the
text long. A *run* is what lies between two rejections: ``n`` accepted drafts with probability
``a ** n * (1 - a)``, then a token of the target's own (Timor et al., ICLR 2025, appendix E).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass


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
        return turn / self._geometric_sum(lookahead + 1)

    def dsi(self, lookahead: int, sp_degree: int) -> float:
        """DSI with several target servers.

        Every run begins with the target's own forward. Drafts that follow are verified block by
        block, and a block waits until it is drafted, or longer where Equation 1 does not hold: once
        all servers are busy, the next begins when the first is free again and takes all that was
        drafted meanwhile. Where drafting a block takes longer than a target forward, the target
        goes on alone until the block comes. With one server, see :meth:`dsi_single`.
        """
        if sp_degree == 1:
            return self.dsi_single()
        block = lookahead * self.drafter
        enough = block * sp_degree >= self.target * (1 - 1e-9)
        period = lookahead if enough else math.ceil(self.target / self.drafter)

        def waits(drafts: int) -> float:
            blocks = math.ceil(drafts / lookahead)
            if blocks < sp_degree or enough:
                return min(drafts * self.target, blocks * block)
            return period * self.drafter

        return self._periodic(period, min(period * self.drafter, period * self.target), waits)

    def dsi_single(self, first_block: int = 0) -> float:
        """DSI with one target server, which verifies whatever is drafted when it is free.

        Args:
            first_block: After a rejection this many drafts replace the target's own forward, as
                in SI; 0 lets it run to its end.
        """
        later = self.target / self._geometric_sum(max(1.0, self.target / self.drafter))
        if not first_block:
            return (1 - self.acceptance) * self.target + self.acceptance * later
        begin = (1 - self.acceptance) * (self.target + first_block * self.drafter)
        return begin + self.acceptance ** (first_block + 1) * later

    def _periodic(self, period: int, seconds: float, waits: Callable[[int], float]) -> float:
        """Time of a token where each ``period`` accepted drafts of a run take ``seconds``.

        ``waits`` gives when the verification of the last ``1 .. period - 1`` drafts begins.
        """
        a = self.acceptance
        rest = (1 - a) * sum(a**drafts * waits(drafts) for drafts in range(1, period))
        whole = a**period * seconds
        return (1 - a) * self.target + (whole + rest) / self._geometric_sum(period)

    def _geometric_sum(self, terms: float) -> float:
        """``1 + a + a ** 2 + ...``; a part of a term counts between its neighbours."""
        a = self.acceptance
        return terms if a == 1 else (1 - a**terms) / (1 - a)
