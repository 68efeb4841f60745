"""Pictures and tables of measured rows, without measuring."""

from pathlib import Path

import pytest

from dsi_ray.cli.simulate import _GRID_COLUMNS, _TABLE_COLUMNS
from dsi_ray.cli.terminal.figures import print_rows, save_grid, save_table

ROW = {
    "target": "Big",
    "drafter": 0.2,
    "acceptance": 0.8,
    "dataset": "Text",
    "non_si_s": 1.0,
    "si_s": 0.8,
    "si_fails": False,
    "dsi_s": 0.5,
    "bound_s": 0.45,
    "measured_over_bound": 1.1,
    "dsi_over_non_si": 2.0,
    "dsi_over_si": 1.6,
    "measured_dsi_over_si": 1.6,
    "measured_dsi_over_si_bound": 1.5,
    "measured_dsi_over_non_si": 2.0,
    "bound_dsi_over_si": 1.8,
    "messages_per_token": 5.0,
    "cpu_ms_per_token": 4.0,
}
GRID = [{**ROW, "sp_degree": sp, "acceptance": rate} for sp in (1, 2, 7) for rate in (0.0, 0.8)]


def test_pictures(tmp_path: Path) -> None:
    save_table(tmp_path, [ROW])
    save_grid(tmp_path, GRID)
    for name in ("table_2.png", "grid.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows("Table", [ROW], _TABLE_COLUMNS)
    print_rows("Grid", GRID, _GRID_COLUMNS)
    printed = capsys.readouterr().out
    assert "Big" in printed
    assert "80%" in printed
