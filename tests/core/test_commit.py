"""StopCriteria: where a text ends."""

import pytest

from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.messages import FinishReason


def test_goes_on_below_the_limit() -> None:
    assert StopCriteria(3, frozenset({9})).finish(2, 1) is None


def test_ends_at_the_limit() -> None:
    assert StopCriteria(3).finish(3, 1) is FinishReason.LENGTH


def test_a_stop_id_at_the_limit_is_a_stop() -> None:
    assert StopCriteria(3, frozenset({9})).finish(3, 9) is FinishReason.STOP


@pytest.mark.parametrize("limit", [0, -1])
def test_refuses_to_generate_nothing(limit: int) -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        StopCriteria(limit)
