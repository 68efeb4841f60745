"""Prefixes."""

from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.models.prefix import common_prefix

paths = st.lists(st.integers(0, 1), max_size=6).map(tuple)


@given(old=paths, new=paths)
def test_common_prefix_is_the_longest(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    length = common_prefix(old, new)
    assert old[:length] == new[:length]
    assert old[: length + 1] != new[: length + 1] or length == len(old) == len(new)
