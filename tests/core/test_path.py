"""Paths against tuples, and what they cost."""

import pickle
import subprocess
import sys
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.core.path import CHUNK, Path
from tests.core.counting import operations

tokens = st.lists(st.integers(0, 2), max_size=5 * CHUNK).map(tuple)
index = st.integers(-6 * CHUNK, 6 * CHUNK)
bound = st.none() | index


@given(tokens, index, st.slices(6 * CHUNK))
def test_reads_as_a_tuple(ids: tuple[int, ...], at: int, part: slice) -> None:
    path = Path.of(ids)
    assert (len(path), tuple(path), bool(path)) == (len(ids), ids, bool(ids))
    assert path[part] == ids[part]
    if -len(ids) <= at < len(ids):
        assert path[at] == ids[at]
    else:
        with pytest.raises(IndexError):
            path[at]


@given(tokens, bound, bound)
def test_slices_near_either_end(ids: tuple[int, ...], begin: int | None, end: int | None) -> None:
    assert Path.of(ids)[begin:end] == ids[begin:end]


@given(tokens, st.lists(st.tuples(st.integers(0, 6 * CHUNK), tokens), max_size=6))
def test_any_history_of_growing_and_shrinking(
    ids: tuple[int, ...], steps: list[tuple[int, tuple[int, ...]]]
) -> None:
    path = Path.of(ids)
    for length, new in steps:
        before = path, ids
        path, ids = path.upto(length).extended(new), (*ids[:length], *new)
        assert path[:] == ids
        assert before[0][:] == before[1]


@given(tokens, st.integers(0, 5 * CHUNK), tokens, tokens, st.booleans())
def test_what_two_have_in_common(
    ids: tuple[int, ...], length: int, one: tuple[int, ...], two: tuple[int, ...], shares: bool
) -> None:
    first, second = (*ids, *one), (*ids[:length], *two)
    base = Path.of(ids)
    a = base.extended(one)
    b = base.upto(length).extended(two) if shares else Path.of(second)
    equal = [x == y for x, y in zip(first, second, strict=False)]
    common = equal.index(False) if False in equal else len(equal)
    assert a.common(b) == b.common(a) == common
    assert a.agrees(b) == b.agrees(a) == (common == len(equal))
    assert (a == b) == (first == second)
    assert (a.digest == b.digest) == (hash(a) == hash(b)) == (first == second)


def test_a_path_is_no_tuple() -> None:
    assert Path.of((1, 2)) != (1, 2)


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40), st.integers(0, 40))
def test_bytes_and_pickles(ids: list[int], length: int) -> None:
    path = Path.of(ids)
    assert len(path.tobytes()) == 4 * len(ids)
    for copy in (Path.frombytes(path.tobytes()), pickle.loads(pickle.dumps(path))):
        assert copy == path
        assert copy.upto(length).digest == path.upto(length).digest


@given(tokens, st.integers(0, 5), st.integers(0, 6))
def test_chunks_are_the_full_ones(ids: tuple[int, ...], first: int, most: int) -> None:
    full = [ids[i : i + CHUNK] for i in range(0, len(ids) - CHUNK + 1, CHUNK)]
    path = Path.of(ids)
    assert list(path.chunks(first)) == full[first:]
    assert list(islice(path.chunks(first), most)) == full[first : first + most]


def test_the_digest_is_the_same_in_every_process() -> None:
    script = "from dsi_ray.core.path import Path; print(Path.of(range(100)).digest)"
    command = [sys.executable, "-c", script]
    other = subprocess.run(command, capture_output=True, check=True, text=True)
    assert int(other.stdout) == Path.of(range(100)).digest


def test_a_long_path_needs_no_deep_stack() -> None:
    path = Path.of(range(10**6))
    assert pickle.loads(pickle.dumps(path)).digest == path.digest
    del path


@pytest.mark.parametrize("length", [64, 8192, 65536, 2**20])
def test_reading_and_comparing_costs_no_more_with_a_long_context(length: int) -> None:
    base = Path.of([i % 7 for i in range(length)])
    base.digest  # noqa: B018
    one, two = base.extended([1] * 40), base.extended([1] * 9)

    def work() -> None:
        assert one.upto(length + 9) == two
        assert one.common(two) == length + 9
        assert (one[0], one[length // 2], one[-20:]) == (0, length // 2 % 7, (1,) * 20)
        assert one.upto(length).digest == base.digest
        assert next(one.chunks(0)) == base[:CHUNK]

    assert operations(work) < 4000
