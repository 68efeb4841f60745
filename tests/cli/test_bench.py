"""``dsi-ray bench`` and ``dsi-ray demo``."""

import json
from pathlib import Path

from .conftest import SIMULATED, dsi_ray

FIGURES = {
    "tokens",
    "seconds",
    "tokens_per_second",
    "ttft_ms",
    "tpot_ms",
    "acceptance_rate",
    "target_forwards",
    "cancelled_tasks",
    "messages_per_token",
    "identical_tokens",
}


def test_bench_writes_its_figures(on_cluster: str) -> None:
    arguments = ["--prompts=2", "--max-tokens=8", "--si-lookahead=2", "--si-lookahead=3"]
    result = dsi_ray("bench", *SIMULATED, on_cluster, *arguments, "--json=-")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert [row["name"] for row in report["rows"]] == ["non-SI", "SI k=2", "SI k=3", "DSI"]
    for row in report["rows"]:
        assert row.keys() >= FIGURES
        assert (row["tokens"], row["identical_tokens"]) == (16, True)
    assert {"versions", "cores", "commit"} <= report["environment"].keys()


def test_demo_serves_streams_and_compares(port: int, tmp_path: Path) -> None:
    file = tmp_path / "demo.json"
    arguments = [f"--port={port}", "--sp-degree=1", "--prompts=1", "--max-tokens=12"]
    result = dsi_ray("demo", *arguments, f"--json={file}")
    assert result.returncode == 0, result.stderr
    assert f"http://127.0.0.1:{port}/v1" in result.stdout
    assert "NO" not in result.stdout.split()
    for report in json.loads(file.read_text()).values():
        assert [row["name"] for row in report["rows"]] == ["non-SI", "SI", "DSI"]
        assert all(row["identical_tokens"] for row in report["rows"])
