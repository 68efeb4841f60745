"""Blame: whether a request may be what kills the servers that compute it."""

import math
from dataclasses import dataclass

from dsi_ray.core.messages import ServerId

MOST_DEATHS = 3
"""Servers that may die, one after another, over a request that does not get on meanwhile."""

CONVICTED = f"{MOST_DEATHS} servers died, one after another, while they computed this request"


@dataclass(slots=True)
class PoisonRecord:
    """The servers that died, or hung, while they computed one request.

    Of those that a server computes together any may be why it died. From then on each is computed
    alone until it gets on. What was computed before may still be why the next one dies: so the
    last time a request gets a server that has computed nothing yet, and only that convicts it.

    Attributes:
        targets: Target servers, since the last commit.
        drafters: Drafters, since the beginning: they can only cost the drafts.
        cell: The server that has computed nothing but this request.
    """

    targets: int = 0
    drafters: int = 0
    cell: ServerId | None = None
    _last: float = -math.inf

    @property
    def suspected(self) -> bool:
        """Whether it is to be computed alone."""
        return self.targets > 0

    @property
    def needs_cell(self) -> bool:
        """Whether it is to be computed where nothing else was."""
        return self.targets == MOST_DEATHS - 1

    @property
    def convicted(self) -> bool:
        """Whether it is to fail."""
        return self.targets >= MOST_DEATHS

    @property
    def may_draft(self) -> bool:
        """Whether it may use drafters."""
        return self.drafters < MOST_DEATHS

    def is_tried_on(self, server: ServerId) -> bool:
        """Whether the death of a server would convict it."""
        return self.needs_cell and server == self.cell

    def accuse(self, server: ServerId, now: float, *, alone: bool) -> None:
        """A target server died, or hangs.

        Args:
            server: Which one.
            now: When, on any clock. What is lost at one moment is one accident, such as a node's.
            alone: Whether the server was there for nothing else.
        """
        counts = alone and now > self._last and (not self.needs_cell or self.is_tried_on(server))
        if counts or not self.suspected:
            self.targets += 1
            self._last = now
        if server == self.cell:
            self.cell = None

    def clear(self) -> None:
        """It got on: a token was committed."""
        self.targets = 0
        self.cell = None
