"""Equation 1: lookahead <-> SP degree <-> devices (Timor et al., section 3.1 and appendix D)."""

import math
from dataclasses import dataclass

from dsi_ray.core.decoders.dsi import Plan

_WEIGHT = 0.1
"""Of a new measurement in an exponentially weighted mean."""

_MOST_LOOKAHEAD = 16
"""A drafter that costs next to nothing does not make ever longer blocks worth verifying."""


def smallest_lookahead(target: float, drafter: float, sp_degree: int) -> int:
    """The smallest lookahead with ``ceil(target / (lookahead * drafter)) <= sp_degree``.

    Args:
        target: Latency of one target forward, messages included; any unit.
        drafter: Latency of one drafter forward, same unit.
        sp_degree: Number of target servers.
    """
    return max(1, math.ceil(target / (sp_degree * drafter) - 1e-9))


@dataclass(slots=True)
class Pace:
    """Measured latencies, in seconds, and the plans that follow from them.

    Attributes:
        target: Of one target forward.
        drafter: Of one drafter forward.
        message: Of one message.
    """

    target: float
    drafter: float
    message: float = 0.0
    acceptance: float = 0.8

    def observe_target(self, seconds: float) -> None:
        """Takes a target forward into the mean."""
        self.target += _WEIGHT * (seconds - self.target)

    def observe_drafter(self, seconds: float) -> None:
        """Takes a drafter forward into the mean."""
        self.drafter += _WEIGHT * (seconds - self.drafter)

    def lookahead(self, sp_degree: int) -> int:
        """The lookahead for DSI.

        With several target servers it is the smallest that Equation 1 allows. One server alone
        takes whatever is drafted when it becomes free; there the lookahead only sets how often
        the draft is sent, and once a forward, in time for the next, is enough.
        """
        if sp_degree > 1:
            return smallest_lookahead(self.target + self.message, self.drafter, sp_degree)
        return max(1, math.floor((self.target - self.message) / self.drafter))

    def plan(self, sp_degree: int, lookahead: int | None = None) -> Plan:
        """The plan for DSI; ``lookahead`` overrides the measured choice."""
        lookahead = lookahead or min(_MOST_LOOKAHEAD, self.lookahead(sp_degree))
        # While one block is verified the next is drafted, and a message travels.
        return Plan(lookahead, run_ahead=lookahead * (sp_degree + 1) + 2 * _MOST_LOOKAHEAD)

    def si_lookahead(self, acceptance: float = 0.8, most: int = 16) -> int:
        """The lookahead with which SI commits most tokens a second.

        A turn takes ``lookahead`` drafter forwards and one target forward and commits
        ``(1 - a ** (lookahead + 1)) / (1 - a)`` tokens in the mean.
        """

        def tokens_per_second(lookahead: int) -> float:
            tokens = sum(acceptance**i for i in range(lookahead + 1))
            return tokens / (lookahead * self.drafter + self.target)

        return max(range(1, most + 1), key=tokens_per_second)
