"""``profile`` on a simulated pair."""

import json
from pathlib import Path

from dsi_ray.config import EngineConfig, load
from tests.cli.conftest import SIMULATED, dsi_ray


def test_profile_measures_and_plans(on_cluster: str, tmp_path: Path) -> None:
    prompts, plan = tmp_path / "prompts.txt", tmp_path / "plan.yaml"
    prompts.write_text("def add(a, b):\n\nimport os\n")
    flags = ("--prompt-file", str(prompts), "--max-tokens=16", "--servers=3", "--out", str(plan))
    result = dsi_ray("profile", *SIMULATED, on_cluster, *flags, "--json", "-")
    assert result.returncode == 0, result.stderr
    figures = json.loads(result.stdout)
    assert figures["target"]["tpot"] > figures["drafter"]["tpot"] > 0
    assert 0 <= figures["acceptance"]["geometric"] <= 1
    assert load(EngineConfig, plan, {}).sp_degree in (1, 2, 3)


def test_profile_without_prompts(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    result = dsi_ray("profile", "--prompt-file", str(tmp_path / "empty.txt"))
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
