"""Many sessions' tokens in one row, and how attention sees each session on its own.

All other layers treat tokens alike, so they run once over the row. For attention, sessions with
about as many tokens form a group: a padded batch. The number of groups, and with it the number of
operations in a layer, grows with the logarithm of the differences, not with the sessions.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from typing import Any, Protocol, TypeVar

import numpy
import torch
from torch import Tensor

from dsi_ray.models.kv.blocks import BLOCK_TOKENS
from dsi_ray.models.kv.kv_cache import Segment

_READ_COST = 16
"""Reading a token's keys and values costs as much as attending to them this many times."""

_GROUP_COST = 5000
"""What a group costs by itself, in the same unit: one query's look at one token."""


class StopSignal(Protocol):
    """Whether a forward is to end; an event is one."""

    def is_set(self) -> bool:
        """Asked once in each layer."""


@dataclass(frozen=True, slots=True)
class AttentionBucket:
    """Sessions whose attention is computed as one batch of shape (sessions, queries).

    Attributes:
        first: Its first token in the row.
        count: Number of its tokens in the row.
        alone: Whether it is one session and the row holds nothing else.
        sessions: Size of the batch.
        queries: Most tokens of a session that are computed.
        keys: Most tokens of a session, cached ones included.
        positions: Of the queries: (sessions, queries); padding repeats a session's last query.
        blocks: What to read: (sessions * blocks,), or the first of consecutive ones.
        pad: Which of the group's tokens each query is: (sessions * queries,). None: just these.
        unpad: Which query each of the group's tokens is: (count,). None: just these.
    """

    first: int
    count: int
    alone: bool
    sessions: int
    queries: int
    keys: int
    positions: Tensor
    blocks: Tensor | int
    pad: Tensor | None
    unpad: Tensor | None

    def select(self, states: Tensor) -> Tensor:
        """(1, heads, tokens of the row, size) -> (sessions, heads, queries, size)."""
        if self.alone:
            return states
        own = states[0].narrow(1, self.first, self.count)
        if self.pad is not None:
            own = own.index_select(1, self.pad)
        heads, _, size = own.shape
        return own.reshape(heads, self.sessions, self.queries, size).transpose(0, 1)

    def read(self, pool: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """(heads, slots, sizes) -> keys of ``size`` and values: (sessions, heads, keys, size)."""
        heads, slots, sizes = pool.shape
        begin = 0
        if isinstance(self.blocks, int):
            begin = self.blocks * BLOCK_TOKENS * sizes
        else:
            pool = pool.view(heads, -1, BLOCK_TOKENS * sizes).index_select(1, self.blocks)
            slots = pool.shape[1] * BLOCK_TOKENS
        # As one operation: in small models their number is what takes the time.
        shape = self.sessions, heads, self.keys
        strides = _blocks_of(self.keys) * BLOCK_TOKENS * sizes, slots * sizes, sizes, 1
        keys = pool.as_strided((*shape, size), strides, begin)
        return keys, pool.as_strided((*shape, sizes - size), strides, begin + size)

    def join(self, output: Tensor) -> Tensor:
        """(sessions, queries, ...) -> (1, count, ...)."""
        if self.alone:
            return output
        flat = output.flatten(0, 1)
        if self.unpad is not None:
            flat = flat.index_select(0, self.unpad)
        return flat[None]


@dataclass(frozen=True, slots=True)
class BatchMetadata:
    """One forward.

    Attributes:
        order: Which segment comes first in the row, second ...
        positions: Of the tokens in the row: (1, tokens).
        first: The first of them, where all tokens are of one session; else None.
        slots: Where their keys and values are written: (tokens,).
        groups: In the order of the row.
        wiped: Slots to clear first; None for none. What others left there is masked, but a number
            that is not finite would show through a mask.
        room: Number of slots that the pools must have.
        stop: Ends the forward at the next layer.
        copies: What `on` has given, by device.
    """

    order: tuple[int, ...]
    positions: Tensor
    first: int | None
    slots: Tensor
    groups: tuple[AttentionBucket, ...]
    wiped: Tensor | None
    room: int
    stop: StopSignal
    copies: "dict[torch.device, BatchMetadata]" = field(default_factory=dict)

    @property
    def before(self) -> int | Tensor:
        """What to add to the tokens' places in the row to get their positions: (tokens,).

        One number where all are of one session: so many tokens are cached.
        """
        if self.first is not None:
            return self.first
        return self.positions[0] - torch.arange(self.positions.shape[1], device=self.slots.device)

    def on(self, device: torch.device) -> "BatchMetadata":
        """The same on the device of a layer, which need not be that of the others."""
        if device == self.positions.device:
            return self
        if device not in self.copies:
            groups = tuple(_moved(group, device) for group in self.groups)
            self.copies[device] = replace(_moved(self, device), groups=groups)
        return self.copies[device]


P = TypeVar("P", AttentionBucket, BatchMetadata)


def _moved(part: P, device: torch.device) -> P:
    """Moves the tensors among the fields."""
    values = {field.name: getattr(part, field.name) for field in fields(part)}
    moved: dict[str, Any] = {
        name: value.to(device) for name, value in values.items() if isinstance(value, Tensor)
    }
    return replace(part, **moved)


def pack(
    segments: Sequence[Segment],
    recycled: Sequence[int],
    room: int,
    stop: StopSignal,
    device: torch.device,
) -> BatchMetadata:
    """Plans one forward over a pool of ``room`` blocks: see `BatchMetadata`."""
    order = sorted(range(len(segments)), key=lambda i: (_queries(segments[i]), segments[i].length))
    positions = [position for i in order for position in _positions(segments[i])]
    slots = [slot for i in order for slot in _slots(segments[i])]
    wiped = [block * BLOCK_TOKENS + i for block in recycled for i in range(BLOCK_TOKENS)]
    groups, first = [], 0
    for members in _grouped([segments[i] for i in order]):
        groups.append(_group(members, first, len(segments) == 1, device))
        first += groups[-1].count
    return BatchMetadata(
        tuple(order),
        torch.tensor([positions], device=device),
        positions[0] if len(segments) == 1 else None,
        torch.tensor(slots, device=device),
        tuple(groups),
        torch.tensor(wiped, device=device) if wiped else None,
        room * BLOCK_TOKENS,
        stop,
    )


_running: ContextVar[BatchMetadata | None] = ContextVar("running", default=None)


def running() -> BatchMetadata | None:
    """Returns the forward that this thread computes; None in a forward of transformers' own."""
    return _running.get()


@contextmanager
def run(packing: BatchMetadata) -> Iterator[None]:
    """Makes ``packing`` the forward that this thread computes."""
    token = _running.set(packing)
    try:
        yield
    finally:
        _running.reset(token)


def _blocks_of(tokens: int) -> int:
    return -(-tokens // BLOCK_TOKENS)


def _queries(segment: Segment) -> int:
    return segment.length - segment.cached


def _positions(segment: Segment) -> range:
    return range(segment.cached, segment.length)


def _slots(segment: Segment) -> list[int]:
    first = segment.cached // BLOCK_TOKENS
    blocks = segment.blocks[first:].tolist()
    places = (divmod(position, BLOCK_TOKENS) for position in _positions(segment))
    return [blocks[place - first] * BLOCK_TOKENS + rest for place, rest in places]


def _grouped(segments: list[Segment]) -> Iterator[list[Segment]]:
    """Splits them where padding would cost more than computing them twice, and a bit."""
    members: list[Segment] = []
    queries = keys = cost = 0
    for segment in segments:
        queries, keys = max(queries, _queries(segment)), max(keys, segment.length)
        cost += _cost(_queries(segment), segment.length)
        padded = (len(members) + 1) * _cost(queries, keys)
        if members and padded > 2 * cost + _GROUP_COST:
            yield members
            members = []
            queries, keys = _queries(segment), segment.length
            cost = _cost(queries, keys)
        members.append(segment)
    yield members


def _cost(queries: int, keys: int) -> int:
    return keys * (_READ_COST + queries)


def _group(
    segments: list[Segment], first: int, alone: bool, device: torch.device
) -> AttentionBucket:
    counts = [_queries(segment) for segment in segments]
    queries, keys = max(counts), max(segment.length for segment in segments)
    pad: Tensor | None = None
    unpad: Tensor | None = None
    if min(counts) < queries:
        begins = accumulate(counts[:-1], initial=0)
        columns = [[min(j, count - 1) for j in range(queries)] for count in counts]
        pads = [begin + j for begin, row in zip(begins, columns, strict=True) for j in row]
        unpads = [i * queries + j for i, count in enumerate(counts) for j in range(count)]
        pad, unpad = torch.tensor(pads, device=device), torch.tensor(unpads, device=device)
    positions = [
        [min(segment.cached + j, segment.length - 1) for j in range(queries)]
        for segment in segments
    ]
    return AttentionBucket(
        first,
        sum(counts),
        alone,
        len(segments),
        queries,
        keys,
        torch.tensor(positions, device=device),
        _blocks(segments, _blocks_of(keys), device),
        pad,
        unpad,
    )


def _blocks(segments: list[Segment], each: int, device: torch.device) -> Tensor | int:
    """What to read; shorter sessions are padded with their first block, which the mask hides."""
    firsts = [int(segment.blocks[0]) for segment in segments]
    whole = all(segment.neighbours and len(segment.blocks) == each for segment in segments)
    if whole and firsts == list(range(firsts[0], firsts[0] + each * len(firsts), each)):
        return firsts[0]
    blocks = numpy.empty((len(segments), each), numpy.int64)
    for row, segment in zip(blocks, segments, strict=True):
        row[: len(segment.blocks)] = segment.blocks
        row[len(segment.blocks) :] = segment.blocks[0]
    return torch.from_numpy(blocks).flatten().to(device)
