"""The n-gram index against a search through the whole text."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.models.base import Extension, ForwardCancelled, Sampling, extend_one
from dsi_ray.models.lookup import LookupModel
from dsi_ray.params import SamplingParams

GREEDY = Sampling(SamplingParams(), prompt_tokens=1)
GO = threading.Event()


def searched(tokens: tuple[int, ...], longest: int) -> int | None:
    """Returns what followed the last earlier occurrence of the longest n-gram at the end."""
    for n in range(min(longest, len(tokens)), 0, -1):
        for end in range(len(tokens) - 1, n - 1, -1):
            if tokens[end - n : end] == tokens[-n:]:
                return tokens[end]
    return None


def all_searched(tokens: tuple[int, ...], start: int, longest: int) -> list[int]:
    """Returns the guesses at ``start .. len(tokens)`` up to the first position without one."""
    guesses: list[int] = []
    for position in range(start, len(tokens) + 1):
        guess = searched(tokens[:position], longest)
        if guess is None:
            break
        guesses.append(guess)
    return guesses


@given(
    longest=st.integers(1, 4),
    calls=st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.integers(0, 20),
            st.lists(st.integers(0, 2), max_size=8),
            st.integers(1, 20),
        ),
        max_size=12,
    ),
)
def test_any_history_gives_what_a_search_finds(
    longest: int, calls: list[tuple[str, int, list[int], int]]
) -> None:
    model = LookupModel(longest)
    paths: dict[str, tuple[int, ...]] = {}
    for session, kept, new, start in calls:
        path = (*paths.get(session, ())[:kept], *new) or (0,)
        start = min(start, len(path) + 1)
        paths[session] = path
        assert extend_one(model, Extension(session, path, start, GREEDY)).tokens == all_searched(
            path, start, longest
        )


def test_the_longest_match_wins_and_then_the_latest() -> None:
    model = LookupModel(3)
    assert extend_one(model, Extension("a", (1, 2, 3, 4, 9, 3, 5, 1, 2, 3), 10, GREEDY)).tokens == [
        4
    ]
    assert extend_one(model, Extension("b", (3, 4, 3, 5, 3), 5, GREEDY)).tokens == [5]


def test_without_a_match_there_is_no_opinion() -> None:
    model = LookupModel(3)
    assert extend_one(model, Extension("a", (1, 2, 3), 3, GREEDY)).tokens == []
    assert extend_one(model, Extension("a", (1, 1, 2), 2, GREEDY)).tokens == [1]
    assert extend_one(model, Extension("a", (1, 1), 3, GREEDY)).tokens == []


def test_release_forgets() -> None:
    model = LookupModel(3)
    extend_one(model, Extension("a", (1, 2), 2, GREEDY))
    assert model.cache_stats.sessions == 1
    model.release("a")
    model.release("a")
    assert model.cache_stats.sessions == 0


def test_it_can_be_stopped() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(ForwardCancelled):
        extend_one(LookupModel(3), Extension("a", (1, 1), 2, GREEDY), stop)


def test_info() -> None:
    info = LookupModel(3).info
    assert (info.name, info.vocab_size, info.eos_ids) == ("lookup", 0, ())
