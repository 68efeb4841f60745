"""The load generator needs nothing of what it tests, and its files stay small."""

import subprocess
import sys
from pathlib import Path

import loadtest
from tests.test_architecture import imports

FOLDER = Path(loadtest.__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))
WITH_ENGINE = {
    FOLDER / "faults" / f"{name}.py"
    for name in ("in_process", "lost_drafter", "nodes", "ray_nodes")
}
"""What runs an engine of its own; the command line imports these inside the commands."""


def test_it_knows_no_server() -> None:
    files = set(FILES) - WITH_ENGINE - {FOLDER / "faults" / "commands.py"}
    packages = {module.split(".")[0] for file in files for module in imports(file)}
    assert packages & {"dsi_ray", "ray", "torch", "transformers"} == set()


def test_the_command_line_starts_without_it() -> None:
    code = "import sys, loadtest.cli; sys.exit('dsi_ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=FOLDER.parent).returncode == 0


def test_files_are_small() -> None:
    assert [file for file in FILES if len(file.read_text().splitlines()) > 300] == []
