"""Figures 2 and 7: closed form, virtual time, and what must not be pink."""

import pytest

from dsi_ray.experiments.virtual import heatmap
from dsi_ray.experiments.virtual.heatmap import Cell, closed_form, closed_form_grid, compare

NOT_SLOWER = ("DSI / SI", "DSI / non-SI", "DSI / min(SI, non-SI)")


@pytest.fixture(scope="module")
def figure_2() -> list[Cell]:
    return closed_form_grid(20)


@pytest.mark.parametrize("lookahead", [None, 5])
def test_only_si_has_slowdowns(lookahead: int | None) -> None:
    slower = heatmap.summary(closed_form_grid(20, lookahead))["slower"]
    assert slower["SI / non-SI"] > 0
    assert all(slower[panel] == 0 for panel in NOT_SLOWER)


def test_nor_has_dsi_with_the_fastest_drafters() -> None:
    """There the lookahead of Equation 1 alone would lose to the best SI at times."""
    cells = [closed_form(0.01, rate / 20) for rate in range(21)]
    assert all(cell.speedups[panel] >= 1 - 1e-9 for cell in cells for panel in NOT_SLOWER)
    assert any(cell.dsi_equation_1 > cell.si for cell in cells)


def test_the_failure_region_of_si_is_where_the_drafter_is_right_too_rarely(
    figure_2: list[Cell],
) -> None:
    for cell in figure_2:
        assert (cell.speedups["SI / non-SI"] < 1 - 1e-9) == (cell.acceptance < cell.drafter)


def test_dsi_beats_the_better_of_both_by_up_to_one_and_a_half(figure_2: list[Cell]) -> None:
    """The paper finds 1.6."""
    assert 1.4 < max(cell.speedups["DSI / min(SI, non-SI)"] for cell in figure_2) < 1.6


@pytest.mark.parametrize("drafter", [0.05, 0.3, 0.8])
@pytest.mark.parametrize("acceptance", [0.0, 0.5, 0.75, 0.9])
def test_closed_form_and_virtual_time_agree(drafter: float, acceptance: float) -> None:
    comparison = compare(closed_form(drafter, acceptance), texts=3, seed=0)
    assert max(comparison.differences.values()) < 0.05
    virtual = comparison.virtual_time.speedups
    assert all(virtual[panel] >= 1 - 1e-9 for panel in NOT_SLOWER)


def test_a_block_is_not_held_back_for_the_drafts_that_the_target_overtook() -> None:
    """A lookahead of 5 takes longer to draft than a target forward."""
    comparison = compare(closed_form(0.3, 0.75, lookahead=5), texts=3, seed=0)
    assert max(comparison.differences.values()) < 0.1
