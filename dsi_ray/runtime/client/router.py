"""Which of several DSI groups serves a request: no Ray, no clock."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import takewhile

from dsi_ray.runtime.errors import GroupLost

BLOCK = 64
"""Tokens by which prefixes are compared."""

MAX_BLOCKS = 16_384
"""Of each group: a million tokens, more than most KV caches hold."""


class Router:
    """Sends each prompt to the group that has the least to do before it would be done there.

    What a group has to do is what it has begun, and of the prompt the part that its KV caches do
    not hold: the tokens after the longest prefix that it was sent lately. So a conversation goes
    on where it was, unless that group is busier than another by more than the tokens saved; among
    equals those that have got nothing for longest come first. For one thread at a time.
    """

    def __init__(self, num_groups: int) -> None:
        self._load = [0] * num_groups
        self._prefixes = [_Prefixes() for _ in range(num_groups)]
        # The one that has got nothing for longest comes first.
        self._healthy = list(range(num_groups))

    def choose(self, prompt: Sequence[int]) -> int:
        """Returns the group that a prompt should go to, and expects that it goes there.

        Raises:
            GroupLost: All groups are excluded.
        """
        if not self._healthy:
            raise GroupLost("no group is healthy")
        blocks = list(_blocks(prompt))

        def work(group: int) -> int:
            return self._load[group] + len(prompt) - BLOCK * self._prefixes[group].matched(blocks)

        group = min(self._healthy, key=work)
        self._healthy.remove(group)
        self._healthy.append(group)
        self._prefixes[group].remember(blocks)
        return group

    def begin(self, group: int, cost: int) -> None:
        """Counts a request that was sent to ``group``; its cost is its tokens, future ones too."""
        self._load[group] += cost

    def end(self, group: int, cost: int) -> None:
        """Ends, however it ended, what :meth:`begin` began with the same cost."""
        self._load[group] -= cost

    def exclude(self, group: int) -> None:
        """Sends nothing more to a group, such as one that lost a server; its caches are lost."""
        if group in self._healthy:
            self._healthy.remove(group)
        self._prefixes[group] = _Prefixes()

    def include(self, group: int) -> None:
        """Sends to a group again."""
        if group not in self._healthy:
            self._healthy.insert(0, group)


class _Prefixes:
    """The prefixes that a group was sent lately, as hashes; those of equal hash only cost time."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def matched(self, blocks: Sequence[int]) -> int:
        """Returns how many blocks of a prompt the group has seen, from the first on."""
        return sum(1 for _ in takewhile(self._blocks.__contains__, blocks))

    def remember(self, blocks: Sequence[int]) -> None:
        """Takes note of a prompt; forgets ends of prefixes before their beginnings."""
        for block in reversed(blocks[:MAX_BLOCKS]):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > MAX_BLOCKS:
            self._blocks.popitem(last=False)


def _blocks(prompt: Sequence[int]) -> Iterator[int]:
    """Yields for each whole block a hash of all tokens up to its end."""
    prefix = 0
    for end in range(BLOCK, len(prompt) + 1, BLOCK):
        prefix = hash((prefix, *prompt[end - BLOCK : end]))
        yield prefix
