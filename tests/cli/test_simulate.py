"""``simulate`` and ``plan`` as users run them, in virtual time and at the smallest sizes."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import dsi_ray

SMALLEST = {
    "heatmap": ("--resolution=2", "--coarse=1", "--texts=1"),
    "jitter": ("--traces=1",),
    "throughput": ("--requests=2", "--devices=2"),
}
FILES = {
    "heatmap": {
        f"figure_{number}_{kind}.{suffix}"
        for number in (2, 7)
        for kind in ("closed_form", "virtual_time")
        for suffix in ("csv", "png")
    },
    "jitter": {"jitter.csv"},
    "throughput": {"throughput.csv", "throughput.png"},
}


@pytest.mark.parametrize("name", SMALLEST)
def test_an_experiment_writes_its_files(name: str, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    result = dsi_ray("simulate", name, *SMALLEST[name], "--out", str(out), "--json", "-")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)
    assert {file.name for file in out.iterdir()} == FILES[name]
    for file in out.iterdir():
        head = file.read_bytes()[:8]
        assert head == b"\x89PNG\r\n\x1a\n" if file.suffix == ".png" else b"," in file.read_bytes()


def test_a_table_for_humans() -> None:
    result = dsi_ray("simulate", "jitter", "--traces=1", "--sp-degree=2")
    assert result.returncode == 0, result.stderr
    assert "Starcoder-15B" in result.stdout


@pytest.mark.parametrize("rest", [(), ("--target-ms=30",)])
def test_json_without_a_file_is_stdout(rest: tuple[str, ...]) -> None:
    flags = ("--drafter-ms=3", "--devices=4", *(() if rest else ("--target-ms=30",)))
    result = dsi_ray("plan", *flags, "--json", *rest)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["sp_degree"] == 3


def test_timeline(tmp_path: Path) -> None:
    file = tmp_path / "timeline.svg"
    assert dsi_ray("simulate", "timeline", str(file)).returncode == 0
    assert "<svg" in file.read_text()


def test_results_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = dsi_ray("simulate", "jitter", "--out", str(tmp_path / "file"))
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1


def test_plan_of_the_papers_example() -> None:
    """Section 4: seven devices of which a target server takes two, a drafter at 5 %."""
    flags = ("--target-ms=100", "--drafter-ms=5", "--devices=7", "--model-parallel=2")
    result = dsi_ray("plan", *flags, "--acceptance=0.9", "--json", "-")
    figures = json.loads(result.stdout)
    assert figures["sp_degree"] == 3
    assert figures["largest_useful_sp_degree"] == 20
    assert [row["equation_1_lookahead"] for row in figures["rows"]] == [20, 10, 7]
    speedups = [row["dsi_over_si"] for row in figures["rows"]]
    assert speedups == sorted(speedups)


def test_the_joint_plan_of_a_node(tmp_path: Path) -> None:
    """A target that takes a third on four devices: one server of four beats seven of one."""
    flags = ("--target-ms=30", "--drafter-ms=3", "--scaling=2:17,4:10", "--out", str(tmp_path))
    result = dsi_ray("plan", *flags, "--json", "-")
    figures = json.loads(result.stdout)
    shapes = {(row["sp_degree"], row["model_parallel"]) for row in figures["joint"]}
    assert shapes == {*((sp, 1) for sp in range(1, 8)), *((sp, 2) for sp in range(1, 4)), (1, 4)}
    assert (figures["best"]["sp_degree"], figures["best"]["model_parallel"]) == (1, 4)
    assert (tmp_path / "joint_plan.csv").read_text().count("\n") == 1 + len(shapes)
    assert (tmp_path / "joint_plan.png").read_bytes().startswith(b"\x89PNG")


def test_plan_reads_a_configuration(tmp_path: Path) -> None:
    file = tmp_path / "pair.yaml"
    file.write_text("target: simulated:tpot_ms=30\ndrafters: ['simulated:tpot_ms=3']\n")
    result = dsi_ray("plan", "--config", str(file))
    assert result.returncode == 0, result.stderr
    assert "Take SP" in result.stdout


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--target-ms=30", "--drafter-ms=3", "--model-parallel=9"),
        ("--target-ms=30", "--drafter-ms=3", "--scaling=fast"),
        ("--target-ms=30", "--drafter-ms=3", "--scaling=8:5"),
    ],
)
def test_plan_says_what_is_missing(flags: tuple[str, ...]) -> None:
    result = dsi_ray("plan", *flags)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
