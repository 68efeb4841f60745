"""The lookahead that follows measurements against every fixed one, on the rows of Table 2."""

import pytest

from dsi_ray.experiments.online.paper_table import PAPER_ROWS, PaperRow
from dsi_ray.experiments.virtual.jitter import study

IDS = [f"{row.target} {row.dataset}" for row in PAPER_ROWS]


@pytest.mark.parametrize("jitter", [0.0, 0.2])
@pytest.mark.parametrize("row", PAPER_ROWS, ids=IDS)
def test_adaptive_lookahead_is_near_the_best_fixed_one(row: PaperRow, jitter: float) -> None:
    assert study(row, jitter, sp_degree=7, traces=8).adaptive_over_best <= 1.05


@pytest.mark.parametrize("sp_degree", [1, 2, 3])
def test_also_with_fewer_servers(sp_degree: int) -> None:
    for row in (PAPER_ROWS[0], PAPER_ROWS[6]):
        assert study(row, 0.2, sp_degree, traces=4).adaptive_over_best <= 1.05
