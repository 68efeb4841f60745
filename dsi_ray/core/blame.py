"""Blame: whether a request may be what kills the servers that compute it."""

import math
from dataclasses import dataclass

MOST_DEATHS = 3
"""Servers that may die, one after another, over a request that does not get on meanwhile."""

CONVICTED = f"{MOST_DEATHS} servers died, one after another, while they computed this request"


@dataclass(slots=True)
class Blame:
    """The servers that died while they computed one request.

    Of those that a server computes together any may be why it died. From then on each is computed
    alone until it gets on, so that a further death is blamed on nobody else.

    Attributes:
        targets: Target servers, since the last commit.
        drafters: Drafters, since the beginning: that can only cost the drafts.
    """

    targets: int = 0
    drafters: int = 0
    _last: float = -math.inf

    @property
    def suspected(self) -> bool:
        """Whether it is to be computed alone."""
        return self.targets > 0

    @property
    def convicted(self) -> bool:
        """Whether it is to fail."""
        return self.targets >= MOST_DEATHS

    @property
    def may_draft(self) -> bool:
        """Whether it may use drafters."""
        return self.drafters < MOST_DEATHS

    def accuse(self, now: float, *, alone: bool) -> None:
        """A target server was lost.

        Args:
            now: When, on any clock. What is lost at one moment is one accident, such as a node's.
            alone: Whether it died, and computed nothing else.
        """
        if not self.suspected or (alone and now > self._last):
            self.targets += 1
            self._last = now

    def clear(self) -> None:
        """It got on: a token was committed."""
        self.targets = 0
