"""The rows of Table 2 in virtual time."""

from dsi_ray.experiments.online.paper_table import PAPER_ROWS, bound


def test_with_the_best_si_the_ideal_gain_is_moderate() -> None:
    """About 1.2 to 1.4: the paper's higher figures charge SI for every restart."""
    for row in PAPER_ROWS:
        ideal = bound(row, traces=4)
        assert ideal.si <= ideal.si_paper
        assert 1.1 < ideal.si / ideal.dsi_mean < 1.6
        assert ideal.dsi_mean < ideal.non_si
