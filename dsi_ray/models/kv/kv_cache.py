"""The KV cache of a model: which blocks hold which tokens of which session, within a budget.

Blocks have a reference count, so that sessions share what they have in common: the same system
prompt is computed once. What a released session leaves can be found until its room is needed. Any
session that is not being computed may lose its blocks: its tokens are then computed again.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from dsi_ray.core.path import Path
from dsi_ray.models.kv.block_table import BlockTable, Indices
from dsi_ray.models.kv.blocks import BLOCK_TOKENS, Block, BlockPool, Text


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Where one session's part of a forward reads and writes.

    Attributes:
        cached: Number of tokens that need not be computed.
        shared: How many of these another session has computed.
        length: Number of tokens afterwards.
        blocks: Indices of the blocks with tokens ``0 .. length - 1``; good for one forward.
        neighbours: Whether these blocks follow each other in memory.
    """

    cached: int
    shared: int
    length: int
    blocks: Indices
    neighbours: bool


@dataclass(slots=True)
class _Session:
    """``tokens`` are what all layers hold, in ``blocks``; the full ones can be found by others."""

    tokens: Path = field(default_factory=Path)
    blocks: BlockTable = field(default_factory=BlockTable)


class KVCache:
    """The sessions of a model, least recently used first.

    Attributes:
        pool: Of the blocks.
        preemptions: Number of sessions that lost their blocks before they were released.
    """

    def __init__(self, capacity: int, *, at_once: bool = False) -> None:
        """``capacity`` is the number of blocks; their memory grows, or is taken ``at_once``."""
        self.pool = BlockPool(capacity, at_once=at_once)
        self.preemptions = 0
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def cached(self, key: str, tokens: Path) -> int:
        """Returns how many of ``tokens``, from the first on, some session has computed."""
        session = self._sessions.get(key) or _Session()
        own = session.tokens.common(tokens)
        full = own // BLOCK_TOKENS
        found = sum(1 for _ in self._found(session, full, tokens))
        return max(own, (full + found) * BLOCK_TOKENS)

    def rank(self, keys: Sequence[str]) -> None:
        """Says who of those that are computed now has the first claim on memory: the first."""
        for key in reversed(keys):
            if key in self._sessions:
                self._sessions.move_to_end(key)

    def reserve(self, key: str, tokens: Path, start: int, batch: Collection[str]) -> Segment | None:
        """Finds room for ``tokens``; what of them is cached is not computed again.

        Args:
            key: The session.
            tokens: All of its tokens after the forward.
            start: First position whose token is wanted: what leads to it is computed.
            batch: The sessions that must not lose their blocks.

        Returns:
            None if there is no room besides the sessions of ``batch``.
        """
        session = self._sessions.setdefault(key, _Session())
        self._sessions.move_to_end(key)
        own = self._rewind(session, tokens)
        full = own // BLOCK_TOKENS
        for place, block in enumerate(self._found(session, full, tokens), full):
            self.pool.incref(block)
            self._drop(session, place)
            session.blocks.append(block)
            session.tokens = tokens.upto((place + 1) * BLOCK_TOKENS)
        needed = -(-len(tokens) // BLOCK_TOKENS)
        missing = needed - len(session.blocks)
        while self.pool.available < missing:
            if not self._preempt({key, *batch}):
                return None
        for _ in range(missing):
            session.blocks.append(self.pool.allocate())
        kept = min(session.tokens.common(tokens), start - 1)
        return Segment(
            kept,
            max(kept - own, 0),
            len(tokens),
            session.blocks.indices(needed),
            session.blocks.are_neighbours(needed),
        )

    def commit(self, key: str, tokens: Path) -> None:
        """Says that all layers now hold ``tokens``, for which there is room."""
        session = self._sessions[key]
        before = len(session.tokens) // BLOCK_TOKENS
        for place, chunk in enumerate(tokens.chunks(before), before):
            text = Text(session.blocks[place - 1] if place else None, chunk)
            session.blocks[place] = self.pool.register(session.blocks[place], text)
        if len(tokens) > len(session.tokens):
            session.tokens = tokens

    def release(self, key: str) -> None:
        """Ends a session; an unknown one is fine."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self._drop(session, 0)

    def _found(self, session: _Session, full: int, tokens: Path) -> Iterator[Block]:
        """The blocks that go on with ``tokens`` after the first ``full`` of a session."""
        parent = session.blocks[full - 1] if full else None
        for chunk in tokens.chunks(full):
            parent = self.pool.find(Text(parent, chunk))
            if parent is None:
                return
            yield parent

    def _rewind(self, session: _Session, tokens: Path) -> int:
        """Drops what contradicts ``tokens``, and room that a stopped forward left.

        Returns the number of leading ``tokens`` that remain.
        """
        own = session.tokens.common(tokens)
        if own < min(len(session.tokens), len(tokens)):
            place, rest = divmod(own, BLOCK_TOKENS)
            for block in session.blocks.since(place):
                # A rejected draft is of no use to anybody.
                if block.users == 1:
                    self.pool.forget(block)
            if rest and session.blocks[place].users > 1:
                own -= rest  # others read it: its few tokens are computed again elsewhere
            session.tokens = tokens.upto(own)
        self._drop(session, -(-len(session.tokens) // BLOCK_TOKENS))
        return own

    def _drop(self, session: _Session, length: int) -> None:
        """Gives back all blocks but the first ``length``; the last are reused first."""
        while len(session.blocks) > length:
            self.pool.decref(session.blocks.pop())

    def _preempt(self, batch: Collection[str]) -> bool:
        """Takes the blocks of the least recently used session that is not in ``batch``."""
        holders = (key for key, session in self._sessions.items() if session.blocks)
        key = next((key for key in holders if key not in batch), None)
        if key is None:
            return False
        self.release(key)
        self.preemptions += 1
        return True
