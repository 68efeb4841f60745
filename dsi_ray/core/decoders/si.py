"""Speculative inference: draft, verify, in turns (Leviathan et al., ICML 2023)."""

from dsi_ray.core.decoders.base import Decoder, Request
from dsi_ray.core.messages import Command, Mode
from dsi_ray.core.tree import Node


class SI(Decoder):
    """The first drafter guesses ``lookahead`` tokens, then one target server verifies them."""

    def __init__(self, request: Request, lookahead: int) -> None:
        super().__init__(request)
        self._lookahead = lookahead
        self._drafted_from: Node | None = None
        """The root for which the drafts of this turn were asked."""

    def _next(self) -> list[Command]:
        target = self.targets[0]
        if self.verifying.active(target) or any(map(self.drafting.active, self.drafting.servers)):
            return []
        root = self.tree.root
        if not self.drafting.servers:
            return [self._verify(target, Mode.REPLACE, [root], alone=True)]
        drafter = self.drafting.servers[0]
        limit = min(root.position + 1 + self._lookahead, self.request.end - 1)
        if self._drafted_from is not root and root.position + 1 < limit:
            self._drafted_from = root
            return [self._draft(drafter, Mode.REPLACE, root, limit, report=self._lookahead)]
        tip = root
        while tip.children:
            tip = next(iter(tip.children.values()))
        return [self._verify(target, Mode.REPLACE, self.tree.path(tip), alone=False)]
