"""TokenTree: what is committed, what is drafted and what the target has said.

A trie of token paths below the last committed token (the *root*). Drafts add nodes, verdicts mark
them, and :meth:`TokenTree.advance` walks from the root while the verdict is known: lines 7-16 of
Algorithm 1 (Timor et al., ICLR 2025), for one drafter or many.
"""

import enum
from collections.abc import Sequence

from dsi_ray.core.messages import TokenLogprobs
from dsi_ray.core.path import Path


class NodeState(enum.Enum):
    """Where a node stands relative to the committed tokens."""

    AHEAD = "ahead"
    """The root, or below it: may still come true."""

    COMMITTED = "committed"
    """Above the root: came true."""

    DEAD = "dead"
    """Contradicted by a committed token."""


class TreeNode:
    """A token on a path; the verdict at a node is the target's own token after its path.

    Attributes:
        token: The token id.
        position: Its position in the request.
        parent: The node before it; None for the root.
        children: The tokens that were drafted, or said by the target, after this path.
        drafters: Ranks of the drafters that guessed this node.
        verdict: The target's own token after this path, once known.
        logprobs: What the target reported with the verdict, where the request asks for it.
        proposal: What a drafter drew after this path, for a verification by rejection sampling.
        state: See :class:`NodeState`.
    """

    __slots__ = (
        "children",
        "drafters",
        "logprobs",
        "parent",
        "position",
        "proposal",
        "state",
        "token",
        "verdict",
    )

    def __init__(self, token: int, position: int, parent: "TreeNode | None") -> None:
        self.token = token
        self.position = position
        self.parent = parent
        self.children: dict[int, TreeNode] = {}
        self.drafters: set[int] = set()
        self.verdict: int | None = None
        self.logprobs: TokenLogprobs | None = None
        self.proposal = b""
        self.state = NodeState.AHEAD

    @property
    def awaits_verdict(self) -> bool:
        """Whether a verdict here would still be news."""
        return self.state is NodeState.AHEAD and self.verdict is None

    def child(self, token: int) -> "TreeNode":
        """The node after this one with ``token``, made if there is none."""
        node = self.children.get(token)
        if node is None:
            node = self.children[token] = TreeNode(token, self.position + 1, self)
            if self.state is not NodeState.AHEAD or self.verdict not in (None, token):
                node.state = NodeState.DEAD
        return node


class TokenTree:
    """The committed tokens of a request and every path that may follow them.

    Attributes:
        tokens: Prompt and committed tokens.
        root: The node of the last committed token.
        accepted: Committed tokens that a drafter had guessed.
        rejected: Committed tokens in whose place drafters had guessed others only.
        runs: Numbers of accepted tokens in a row, up to each token that no drafter had guessed; the
            last one is open. A token without any draft in its place does not make an empty run.
    """

    def __init__(self, prompt: Sequence[int]) -> None:
        if not prompt:
            raise ValueError("a request needs at least one prompt token")
        self.tokens = Path.of(prompt)
        self.root = TreeNode(prompt[-1], len(prompt) - 1, None)
        self.accepted = 0
        self.rejected = 0
        self.runs = [0]

    def path(self, tip: TreeNode) -> list[TreeNode]:
        """The nodes from the root to ``tip``, both included; empty if ``tip`` is not ahead."""
        if tip.state is not NodeState.AHEAD:
            return []
        nodes = [tip]
        while nodes[-1] is not self.root:
            parent = nodes[-1].parent
            assert parent is not None, "only the root has no parent among nodes ahead"
            nodes.append(parent)
        nodes.reverse()
        return nodes

    def tokens_to(self, tip: TreeNode) -> Path:
        """All tokens of the request up to ``tip``, which is the root or below it."""
        return self.tokens.extended(node.token for node in self.path(tip)[1:])

    def draft(
        self, node: TreeNode, tokens: Sequence[int], drafter: int, proposals: Sequence[bytes] = ()
    ) -> TreeNode:
        """Adds a drafter's ``tokens`` after ``node`` and returns the last node.

        ``proposals`` has one entry for each token, or none. The first at a node stands.
        """
        for index, token in enumerate(tokens):
            if proposals and not node.proposal:
                node.proposal = proposals[index]
            node = node.child(token)
            node.drafters.add(drafter)
        return node

    def judge(
        self, node: TreeNode, tokens: Sequence[int], logprobs: Sequence[TokenLogprobs] = ()
    ) -> TreeNode:
        """Adds the target's own ``tokens`` after ``node`` and returns the last node.

        ``logprobs`` has one entry for each token, or none.

        The first verdict at a node stands. A later one that differs (two servers may differ in a
        near-tie in half precision) leads off the path, as a wrong draft does. Drafts that a verdict
        contradicts die at once, wherever they are: they lie below a node that cannot have them.
        """
        for index, token in enumerate(tokens):
            if node.verdict is None:
                node.verdict = token
                node.logprobs = logprobs[index] if logprobs else None
                for sibling in node.children.values():
                    if sibling.token != token:
                        _kill(sibling)
            node = node.child(token)
        return node

    def survivor(self, tip: TreeNode) -> TreeNode:
        """Where a path that ended in ``tip`` goes on: after its last token that may come true.

        That is the root, or a node further ahead where a verdict came before its turn.
        """
        node: TreeNode | None = tip
        while node is not None and node.state is NodeState.DEAD:
            node = node.parent
        if node is None or node.state is NodeState.COMMITTED:
            node = self.root
        while node.verdict is not None:
            node = node.child(node.verdict)
        return node

    def advance(self) -> int | None:
        """Commits one token if the verdict at the root is known; returns it.

        The root's child with that token becomes the root: the survivor of all drafters that
        guessed it. Its siblings die, and with them every path through them.
        """
        old, token = self.root, self.root.verdict
        if token is None:
            return None
        survivor = old.child(token)
        if survivor.drafters:
            self.accepted += 1
            self.runs[-1] += 1
        elif any(child.drafters for child in old.children.values()):
            self.rejected += 1
            self.runs.append(0)
        elif self.runs[-1]:
            self.runs.append(0)
        old.state = NodeState.COMMITTED
        old.children = {token: survivor}
        survivor.parent = None
        self.root = survivor
        self.tokens = self.tokens.extended((token,))
        return token


def _kill(node: TreeNode) -> None:
    stack = [node]
    while stack:
        dead = stack.pop()
        dead.state = NodeState.DEAD
        stack.extend(dead.children.values())
