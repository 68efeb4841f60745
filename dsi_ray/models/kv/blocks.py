"""Blocks of a KV cache: who uses them, and which text the unused ones still hold."""

import heapq
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from dsi_ray.core.path import CHUNK

BLOCK_TOKENS = CHUNK
"""Tokens of a block: the unit in which memory is given out and shared."""

_FIRST_SIZE = 64


@dataclass(slots=True, eq=False)
class Block:
    """Room for `BLOCK_TOKENS` tokens. A slot that is given out again is a new block.

    Attributes:
        index: Of its place in the pool.
        users: Number of sessions that hold it.
        text: Set once it is full and others may find it.
    """

    index: int
    users: int = 0
    text: "Text | None" = field(default=None, repr=False)


class Text(NamedTuple):
    """What a full block holds: its tokens, and all before them.

    Attributes:
        parent: The block before it; None at the beginning of a text.
        tokens: Its own.
    """

    parent: Block | None
    tokens: tuple[int, ...]


class BlockPool:
    """Gives blocks out; those that nobody uses any more stay, to be found, until room is needed.

    Attributes:
        capacity: Number of blocks.
        made: Blocks ``0 .. made - 1`` have been given out at least once.
        size: For how many blocks there should be memory; it doubles, so that this is rare.
        recycled: Blocks given out again whose old content is still in memory.
        evictions: Number of blocks with a text that were dropped to make room.
    """

    def __init__(self, capacity: int, *, at_once: bool = False) -> None:
        self.capacity = capacity
        self.made = 0
        self.size = capacity if at_once else min(_FIRST_SIZE, capacity)
        self.recycled: list[int] = []
        self.evictions = 0
        # The lowest first: neighbours can be read without a copy.
        self._free: list[int] = []
        self._idle: OrderedDict[Block, None] = OrderedDict()
        self._texts: dict[Text, Block] = {}

    @property
    def used(self) -> int:
        """Number of blocks that sessions hold."""
        return self.made - len(self._free) - len(self._idle)

    @property
    def evictable(self) -> int:
        """Number of blocks that nobody holds and that still have a text."""
        return len(self._idle)

    @property
    def available(self) -> int:
        """Number of blocks that can be given out."""
        return self.capacity - self.used

    def find(self, text: Text) -> Block | None:
        """Returns the block with this text."""
        return self._texts.get(text)

    def incref(self, block: Block) -> None:
        """Counts one more user of a block that was found."""
        block.users += 1
        self._idle.pop(block, None)

    def allocate(self) -> Block:
        """Returns a block for one user; there must be one `available`."""
        if not self._free and self.made < self.capacity:
            self.made += 1
            if self.made > self.size:
                self.size = min(2 * self.size, self.capacity)
            return Block(self.made - 1, users=1)
        if not self._free:
            oldest, _ = self._idle.popitem(last=False)
            self.forget(oldest)
            self.evictions += 1
            heapq.heappush(self._free, oldest.index)
        self.recycled.append(heapq.heappop(self._free))
        return Block(self.recycled[-1], users=1)

    def decref(self, block: Block) -> None:
        """Counts one user less; a text stays while there is room."""
        block.users -= 1
        if block.users:
            return
        if block.text is None:
            heapq.heappush(self._free, block.index)
        else:
            self._idle[block] = None

    def register(self, block: Block, text: Text) -> Block:
        """Lets others find a full block.

        Returns the one to use from now on: the same text may be there already.
        """
        known = self._texts.setdefault(text, block)
        if known is block:
            block.text = text
        else:
            self.incref(known)
            self.decref(block)
        return known

    def forget(self, block: Block) -> None:
        """Takes the text away from a block whose content changes."""
        if block.text is not None:
            del self._texts[block.text]
            block.text = None
