"""The blocks of one session in the order of its text, kept as what a forward reads."""

from typing import TypeAlias

import numpy
from numpy.typing import NDArray

from dsi_ray.models.kv.blocks import Block

Indices: TypeAlias = NDArray[numpy.int64]

_FIRST_SIZE = 8


class BlockTable:
    """A list of blocks with their indices in an array; a change costs what it changes."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._indices: Indices = numpy.empty(_FIRST_SIZE, numpy.int64)
        self._neighbours = 0
        """So many of the first blocks follow each other in memory."""

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, place: int) -> Block:
        return self._blocks[place]

    def __setitem__(self, place: int, block: Block) -> None:
        self._blocks[place] = block
        self._indices[place] = block.index
        self._neighbours = min(self._neighbours, place)
        self._count_neighbours()

    def since(self, place: int) -> list[Block]:
        """The blocks from ``place`` on."""
        return self._blocks[place:]

    def append(self, block: Block) -> None:
        """Adds a block at the end."""
        if len(self) == len(self._indices):
            self._indices = numpy.resize(self._indices, 2 * len(self))
        self._indices[len(self)] = block.index
        self._blocks.append(block)
        self._count_neighbours()

    def pop(self) -> Block:
        """Takes the last block away."""
        block = self._blocks.pop()
        self._neighbours = min(self._neighbours, len(self))
        return block

    def indices(self, count: int) -> Indices:
        """Of the first ``count`` blocks: a view, until the next change."""
        return self._indices[:count]

    def are_neighbours(self, count: int) -> bool:
        """Whether the first ``count`` blocks follow each other in memory."""
        return count <= self._neighbours

    def _count_neighbours(self) -> None:
        """Counts on from those that are known."""
        blocks, place = self._blocks, self._neighbours
        while place < len(blocks) and (
            not place or blocks[place].index == blocks[place - 1].index + 1
        ):
            place += 1
        self._neighbours = place
