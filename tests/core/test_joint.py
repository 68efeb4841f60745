"""SP x MP: how to share devices between target servers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.core.planning.joint import amdahl, joint_plan
from dsi_ray.core.planning.performance_model import PerformanceModel

SHARES = st.floats(0, 1)


@given(st.integers(2, 64), SHARES)
def test_amdahl_is_between_no_gain_and_a_fair_share(devices: int, serial: float) -> None:
    targets = amdahl(30, 1, devices, serial)
    assert max(targets) < devices <= 2 * max(targets)
    for count, target in targets.items():
        assert 30 / count <= target + 1e-9
        assert target <= 30 + 1e-9


def test_amdahl_begins_at_the_smallest_server() -> None:
    assert amdahl(30, 2, 8, serial=0) == {2: 30, 4: 15}
    assert amdahl(30, 1, 2, serial=0) == {1: 30}


@given(st.integers(2, 20), SHARES, SHARES, st.floats(0.5, 30))
def test_every_shape_fits_and_none_is_slower_than_its_target_alone(
    devices: int, serial: float, acceptance: float, drafter: float
) -> None:
    pace = PerformanceModel(30, drafter, acceptance=acceptance, proven=acceptance)
    shapes = joint_plan(pace, devices, amdahl(30, 1, devices, serial))
    assert len({(shape.sp_degree, shape.model_parallel) for shape in shapes}) == len(shapes)
    for shape in shapes:
        assert shape.devices <= devices
        assert 0 < shape.token <= shape.non_si


def test_what_is_better_depends_on_how_the_target_scales() -> None:
    """Where a forward takes as long on more devices, more servers are the only use for them."""
    pace = PerformanceModel(30, 3, acceptance=0.9, proven=0.9)

    def best(serial: float) -> int:
        shapes = joint_plan(pace, 8, amdahl(30, 1, 8, serial))
        return min(shapes, key=lambda shape: shape.token).model_parallel

    assert best(serial=1) == 1
    assert best(serial=0) == 4


def test_the_pace_of_the_caller_stays() -> None:
    pace = PerformanceModel(30, 3)
    joint_plan(pace, 8, {1: 30, 4: 10})
    assert pace.target == 30
    with pytest.raises(ValueError, match="9 devices"):
        joint_plan(pace, 8, {8: 5})
