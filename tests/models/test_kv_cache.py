"""Which blocks hold which tokens, checked against a memory written and read through them."""

from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.core.path import Path
from dsi_ray.models.kv.blocks import BLOCK_TOKENS as B
from dsi_ray.models.kv.kv_cache import KVCache, Segment

TEXT = tuple(range(100, 100 + 4 * B))

parts = st.tuples(
    st.integers(0, 4 * B),  # how many of the session's tokens, or of the common text, stay
    st.lists(st.integers(0, 1), max_size=B + 2),
    st.integers(1, 5 * B),
)
steps = st.lists(
    st.tuples(
        st.sampled_from(["forward", "forward", "stopped", "release"]),
        st.dictionaries(st.sampled_from("abcd"), parts, min_size=1),
    ),
    max_size=12,
)


class Memory:
    """What a layer holds, as tokens."""

    def __init__(self) -> None:
        self.slots: dict[int, int] = {}

    def write(self, segment: Segment, tokens: Path, until: int) -> None:
        """Computes tokens up to position ``until``, or to the end."""
        for position in range(segment.cached, min(until, segment.length)):
            self.slots[self._slot(segment, position)] = tokens[position]

    def read(self, segment: Segment) -> tuple[int, ...]:
        """What a session's attention sees."""
        return tuple(self.slots[self._slot(segment, i)] for i in range(segment.length))

    def _slot(self, segment: Segment, position: int) -> int:
        return segment.blocks[position // B] * B + position % B


@given(steps=steps, capacity=st.sampled_from([6, 9, 100]))
def test_any_history_reads_what_was_written(steps: list, capacity: int) -> None:
    cache, memory = KVCache(capacity), Memory()
    paths: dict[str, Path] = {}
    for what, batch in steps:
        if what == "release":
            for session in batch:
                cache.release(session)
                paths.pop(session, None)
            continue
        segments: dict[str, tuple[Segment, Path]] = {}
        for session, (kept, new, start) in batch.items():
            tokens = Path.of((*paths.get(session, TEXT)[:kept], *new)[: 5 * B] or (1,))
            start = min(start, len(tokens) + 1)
            known = cache.cached(session, tokens)
            segment = cache.reserve(session, tokens, start, segments)
            if segment is None:
                assert segments, "one session alone fits"
                continue
            indices = segment.blocks.tolist()
            run = list(range(indices[0], indices[0] + len(indices)))
            assert segment.neighbours == (indices == run)
            if not segments:
                assert known - B < segment.cached <= known or segment.cached == start - 1
            segments[session] = segment, tokens
        for segment, tokens in segments.values():
            memory.write(
                segment, tokens, segment.length if what == "forward" else segment.cached + 3
            )
            if what == "stopped":
                break
        if what == "stopped":
            continue
        for session, (segment, tokens) in segments.items():
            assert memory.read(segment) == tokens[:]
            cache.commit(session, tokens)
            paths[session] = tokens
            assert cache.cached(session, tokens) == len(tokens)
        pool = cache.pool
        assert pool.used + pool.evictable <= pool.made <= pool.size <= capacity
    for session in list(paths):
        cache.release(session)


def fill(cache: KVCache, session: str, ids: tuple[int, ...]) -> Segment:
    """Computes all that is not cached."""
    tokens = Path.of(ids)
    segment = cache.reserve(session, tokens, len(tokens) + 1, ())
    assert segment is not None
    cache.commit(session, tokens)
    return segment


def test_a_common_prefix_is_computed_once_while_its_session_lives_and_after() -> None:
    cache = KVCache(20)
    first = fill(cache, "a", (*TEXT, 1))
    second = fill(cache, "b", (*TEXT, 2))
    assert (second.cached, second.shared) == (4 * B, 4 * B)
    assert second.blocks[:4].tolist() == first.blocks[:4].tolist()
    assert cache.pool.used == 6
    for session in "ab":
        cache.release(session)
    assert (cache.pool.used, cache.pool.evictable, len(cache)) == (0, 4, 0)
    assert cache.cached("c", Path.of((*TEXT[: 2 * B], 7))) == 2 * B
    assert fill(cache, "c", TEXT).cached == 4 * B


def test_two_that_compute_the_same_at_once_share_it_from_then_on() -> None:
    cache = KVCache(20)
    for session in "ab":
        assert cache.reserve(session, Path.of(TEXT), 1, "ab") is not None
    assert cache.pool.used == 8
    for session in "ab":
        cache.commit(session, Path.of(TEXT))
    assert cache.pool.used == 4


def test_a_session_that_diverges_leaves_the_others_their_text() -> None:
    cache = KVCache(20)
    fill(cache, "a", TEXT)
    fill(cache, "b", TEXT)
    moved = fill(cache, "b", (*TEXT[: 2 * B + 5], 1))
    assert moved.cached == 2 * B
    assert cache.cached("a", Path.of(TEXT)) == 4 * B
    assert fill(cache, "a", TEXT).cached == 4 * B


def test_a_rejected_draft_of_ones_own_costs_nothing() -> None:
    cache = KVCache(20)
    before = fill(cache, "a", TEXT)
    after = fill(cache, "a", (*TEXT[: 4 * B - 3], 1))
    assert after.cached == 4 * B - 3
    assert after.blocks.tolist() == before.blocks.tolist()
    assert cache.pool.evictable == 0


def test_released_texts_make_room_before_sessions_do_and_the_oldest_first() -> None:
    cache = KVCache(8)
    for session, first in (("a", 1), ("b", 2), ("c", 3)):
        fill(cache, session, (first,) * (2 * B))
    cache.release("b")
    cache.release("a")
    fill(cache, "d", (4,) * (4 * B))
    assert (cache.pool.evictions, cache.preemptions) == (2, 0)
    assert cache.cached("x", Path.of((2,) * (2 * B))) == 0
    assert cache.cached("x", Path.of((1,) * (2 * B))) == 2 * B
    fill(cache, "e", (5,) * (4 * B))
    assert cache.preemptions == 1
    assert cache.cached("c", Path.of((3,) * (2 * B))) == 0
    assert cache.cached("d", Path.of((4,) * (4 * B))) == 4 * B


def test_the_sessions_of_a_batch_keep_their_blocks() -> None:
    cache = KVCache(4)
    assert cache.reserve("a", Path.of(TEXT[: 3 * B]), 1, ()) is not None
    assert cache.reserve("b", Path.of(TEXT[: 2 * B]), 1, "a") is None
    assert cache.reserve("b", Path.of(TEXT[: 2 * B]), 1, ()) is not None
    assert cache.preemptions == 1
    assert cache.reserve("c", Path.of((*TEXT, 1)), 1, ()) is None
