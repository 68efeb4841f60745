"""Runs of accepted tokens, counted by length."""

import pytest

from dsi_ray.runtime.request import histogram


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([0], ()),
        ([3], (0, 0, 0, 1)),
        ([2, 0, 0, 3, 0], (2, 0, 1, 1)),
        ([0, 0], (1,)),
        ([1, 1, 0, 1], (1, 3)),
    ],
)
def test_histogram(runs: list[int], expected: tuple[int, ...]) -> None:
    assert histogram(runs) == expected
