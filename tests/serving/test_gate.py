"""How much is let in at once."""

import pytest

from dsi_ray.serving.errors import ApiError
from dsi_ray.serving.gate import Gate


def test_room_is_given_back_however_it_ends() -> None:
    gate = Gate(3)
    with gate.hold(2), gate.hold(1):
        assert gate.in_use == 3
    with pytest.raises(KeyError), gate.hold(3):
        raise KeyError
    assert gate.in_use == 0


def test_more_than_fits_is_told_to_come_back() -> None:
    gate = Gate(3)
    with gate.hold(2):
        with pytest.raises(ApiError) as caught, gate.hold(2):
            pytest.fail("no room")
        assert gate.in_use == 2
    assert (caught.value.status, caught.value.code) == (503, "overloaded")
    assert int(caught.value.response().headers["retry-after"]) > 0


def test_what_never_fits_gets_in_alone() -> None:
    gate = Gate(3)
    with gate.hold(10), pytest.raises(ApiError), gate.hold(1):
        pytest.fail("no room")
