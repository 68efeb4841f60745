"""Speculative inference: draft, verify, in turns (Leviathan et al., ICML 2023)."""

from dsi_ray.core.decoders.base import Decoder, Request
from dsi_ray.core.messages import Command, Mode
from dsi_ray.core.tree import TreeNode


class SI(Decoder):
    """The first drafter guesses ``lookahead`` tokens, then one target server verifies them.

    Beyond its context the next one does, and beyond those of all the target goes on alone.
    """

    def __init__(self, request: Request, lookahead: int) -> None:
        super().__init__(request)
        self._lookahead = lookahead
        self._drafted_from: TreeNode | None = None
        """The root for which the drafts of this turn were asked."""

    def _next(self) -> list[Command]:
        target = self.targets[0]
        if self.verifying.active(target) or any(map(self.drafting.active, self.drafting.servers)):
            return []
        root = self.tree.root
        first = root.position + 1
        drafters = (d for d in self.drafting.servers if first < self.request.draft_end(d))
        drafter = next(drafters, None)
        if drafter is None and not root.children:
            return [self._verify(target, Mode.REPLACE, [root], alone=True)]
        if drafter is not None and self._drafted_from is not root:
            limit = min(first + self._lookahead, self.request.draft_end(drafter))
            self._drafted_from = root
            return [self._draft(drafter, Mode.REPLACE, root, limit, report=self._lookahead)]
        tip = root
        while tip.children:
            tip = next(iter(tip.children.values()))
        return [self._verify(target, Mode.REPLACE, self.tree.path(tip), alone=False)]
