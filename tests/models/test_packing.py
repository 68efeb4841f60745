"""How sessions are grouped for attention."""

import threading

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.models.forward.packing import BatchMetadata, pack
from dsi_ray.models.kv.blocks import BLOCK_TOKENS as B
from dsi_ray.models.kv.kv_cache import Segment

CPU = torch.device("cpu")


def packed(shapes: list[tuple[int, int]]) -> tuple[list[Segment], BatchMetadata]:
    """Sessions of these numbers of cached and new tokens, each in blocks of its own."""
    segments, used = [], 0
    for kept, new in shapes:
        blocks = -(-(kept + new) // B)
        places = numpy.arange(used, used + blocks)
        used += blocks
        segments.append(Segment(kept, 0, kept + new, places, True))
    return segments, pack(segments, (), used, threading.Event(), CPU)


@given(st.lists(st.tuples(st.integers(0, 600), st.integers(1, 300)), min_size=1, max_size=12))
def test_each_query_sees_its_own_session(shapes: list[tuple[int, int]]) -> None:
    """With positions in place of states: a pool of two heads that holds 1000 * session + slot."""
    segments, packing = packed(shapes)
    owners = torch.full((packing.room,), -1)
    for i, segment in enumerate(segments):
        for block in segment.blocks:
            owners[block * B : (block + 1) * B] = i
    pool = torch.stack([owners, owners], -1).float().expand(2, -1, -1).contiguous()
    row = torch.tensor([i for i in packing.order for _ in range(shapes[i][1])]).float()
    states = row.expand(1, 2, -1)[..., None]
    joined = []
    for group in packing.groups:
        keys, values = group.read(pool, 1)
        queries = group.select(states)
        assert keys.shape == values.shape == (group.sessions, 2, group.keys, 1)
        assert queries.shape == (group.sessions, 2, group.queries, 1)
        assert torch.equal(keys[:, :, 0], queries[:, :, 0])
        assert torch.equal(queries, queries[:, :, :1].expand_as(queries))
        joined.append(group.join(queries.transpose(1, 2)))
    assert torch.equal(torch.cat(joined, 1)[0, :, 0, 0], row)
    assert packing.positions.shape == (1, len(row))


def test_like_sessions_are_one_group_and_a_prefill_is_another() -> None:
    assert len(packed([(100 + i, 1) for i in range(16)])[1].groups) == 1
    assert len(packed([(100 + i, 1 + i % 4) for i in range(16)])[1].groups) == 1
    _, packing = packed([(0, 500), *((200, 1) for _ in range(8))])
    assert [group.sessions for group in packing.groups] == [8, 1]


@pytest.mark.parametrize("count", [16, 64, 256])
def test_groups_do_not_grow_with_the_sessions(count: int) -> None:
    _, packing = packed([(50 + 4000 * i // count, 1 + i % 8) for i in range(count)])
    assert len(packing.groups) <= 24


def test_a_packing_goes_along_to_the_device_of_a_layer() -> None:
    _, packing = packed([(0, 5), (40, 2), (700, 1)])
    meta = torch.device("meta")
    there = packing.on(meta)
    assert packing.on(CPU) is packing
    assert packing.on(meta) is there
    groups = [group.positions for group in there.groups]
    assert {tensor.device for tensor in (there.positions, there.slots, *groups)} == {meta}
    assert [group.keys for group in there.groups] == [group.keys for group in packing.groups]
