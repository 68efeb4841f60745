"""Path: the tokens of a request from its first on, in a form that shares what paths have in common.

The paths of a request differ in their last few tokens only. Making, comparing or remembering
another one costs what differs, however long the context.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from struct import pack, unpack
from typing import overload

CHUNK = 16
"""Tokens of a chunk."""


class Path(Sequence[int]):
    """Token ids that never change: full chunks, which paths share, and a tail of fewer tokens.

    A slice is a tuple, and costs its own length: for a beginning there is :meth:`upto`.
    """

    __slots__ = ("_chunk", "_tail")

    def __init__(self) -> None:
        """The empty path. All others come from `of`, `extended` and `upto`."""
        self._chunk = _ROOT
        self._tail: tuple[int, ...] = ()

    @classmethod
    def of(cls, tokens: Iterable[int]) -> "Path":
        """Returns a path of these ids: one that is a path already is itself."""
        return tokens if isinstance(tokens, Path) else cls().extended(tokens)

    @classmethod
    def frombytes(cls, data: bytes) -> "Path":
        """The reverse of :meth:`tobytes`."""
        return cls().extended(unpack(f"<{len(data) // 4}i", data))

    def tobytes(self) -> bytes:
        """Returns the ids as little-endian int32."""
        return pack(f"<{len(self)}i", *self[:])

    def __len__(self) -> int:
        return self._chunk.end + len(self._tail)

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[int, ...]: ...

    def __getitem__(self, index: int | slice) -> int | tuple[int, ...]:
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            return self.upto(end)._since(begin) if step == 1 else self[:][index]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError("path index out of range")
        rest = place % CHUNK
        if place >= self._chunk.end:
            return self._tail[rest]
        return self._chunk.ending_at(place - rest + CHUNK).tokens[rest]

    def __iter__(self) -> Iterator[int]:
        return iter(self[:])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Path):
            return NotImplemented
        return len(self) == len(other) == self.common(other)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Path.of({self[:]})"

    def __reduce__(self) -> tuple[object, ...]:
        return Path.frombytes, (self.tobytes(),)

    @property
    def digest(self) -> int:
        """64 bits that depend on all ids and nothing else: the same in every process."""
        digest = self._chunk.digest()
        return _digest(digest, self._tail) if self._tail else digest

    def extended(self, tokens: Iterable[int]) -> "Path":
        """Returns this path with ``tokens`` after it; costs what they are."""
        tail = (*self._tail, *tokens)
        chunk = self._chunk
        full = len(tail) - len(tail) % CHUNK
        for begin in range(0, full, CHUNK):
            chunk = _Chunk(tail[begin : begin + CHUNK], chunk)
        return _path(chunk, tail[full:])

    def upto(self, length: int) -> "Path":
        """Returns the first ``length`` tokens, or all; costs the logarithm of what is left out."""
        if length >= len(self):
            return self
        rest = length % CHUNK
        if length >= self._chunk.end:
            return _path(self._chunk, self._tail[:rest])
        if not rest:
            return _path(self._chunk.ending_at(length), ())
        last = self._chunk.ending_at(length - rest + CHUNK)
        return _path(last.parent, last.tokens[:rest])

    def chunks(self, first: int) -> Iterator[tuple[int, ...]]:
        """The full chunks from the ``first`` one on; those that nobody takes cost nothing."""
        begin, window = first * CHUNK, CHUNK
        while begin < self._chunk.end:
            end = min(begin + window, self._chunk.end)
            yield from self._chunk.ending_at(end).since(begin)
            begin, window = end, 2 * window

    def common(self, other: "Path") -> int:
        """Returns how many tokens both begin with; costs what follows the last chunk they share."""
        length = min(len(self), len(other))
        a, b = self.upto(length), other.upto(length)
        begin, here, there = a._chunk.end, a._tail, b._tail
        one, two = a._chunk, b._chunk
        while one is not two:
            if one.tokens != two.tokens:
                begin, here, there = one.parent.end, one.tokens, two.tokens
            one, two = one.parent, two.parent
        if here == there:
            return length
        return begin + [x == y for x, y in zip(here, there, strict=True)].index(False)

    def agrees(self, other: "Path") -> bool:
        """Returns whether one of the two is the beginning of the other."""
        return self.common(other) == min(len(self), len(other))

    def _since(self, begin: int) -> tuple[int, ...]:
        if begin >= self._chunk.end:
            return self._tail[begin - self._chunk.end :]
        rest = begin % CHUNK
        return (*chain.from_iterable(self._chunk.since(begin - rest)), *self._tail)[rest:]


class _Chunk:
    """`CHUNK` tokens, and by reference all before them.

    Attributes:
        tokens: Its own; none at the root.
        end: How many tokens end with it.
        parent: The chunk before; the root's is itself.
        jump: One far before, so that any is found in a logarithm of steps: the skew-binary list of
            Myers (Information Processing Letters, 1983).
    """

    __slots__ = ("_digest", "end", "jump", "parent", "tokens")

    def __init__(self, tokens: tuple[int, ...], parent: "_Chunk | None" = None) -> None:
        self.tokens = tokens
        self.parent = self.jump = self
        self.end = 0
        self._digest: int | None = 0
        if parent is not None:
            jump = parent.jump
            even = parent.end - jump.end == jump.end - jump.jump.end
            self.parent, self.jump = parent, jump.jump if even else parent
            self.end = parent.end + CHUNK
            self._digest = None

    def ending_at(self, end: int) -> "_Chunk":
        """The chunk of this text that ends with so many tokens: 0 or a multiple of `CHUNK`."""
        chunk = self
        while chunk.end > end:
            chunk = chunk.jump if chunk.jump.end >= end else chunk.parent
        return chunk

    def since(self, begin: int) -> list[tuple[int, ...]]:
        """The tokens of the chunks from position ``begin``, where one begins, up to this one."""
        chunk, found = self, []
        while chunk.end > begin:
            found.append(chunk.tokens)
            chunk = chunk.parent
        found.reverse()
        return found

    def digest(self) -> int:
        """Of all tokens up to its end; each chunk's is computed once, when it is asked for."""
        chunk, missing = self, []
        while chunk._digest is None:
            missing.append(chunk)
            chunk = chunk.parent
        digest = chunk._digest
        for chunk in reversed(missing):
            digest = chunk._digest = _digest(digest, chunk.tokens)
        return digest


_ROOT = _Chunk(())


def _path(chunk: _Chunk, tail: tuple[int, ...]) -> Path:
    path = Path.__new__(Path)
    path._chunk, path._tail = chunk, tail
    return path


def _digest(before: int, tokens: tuple[int, ...]) -> int:
    data = pack(f"<Q{len(tokens)}i", before, *tokens)
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")
