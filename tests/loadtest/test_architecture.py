"""The load generator needs nothing of what it tests, and its files stay small."""

from pathlib import Path

import loadtest
from tests.test_architecture import imports

FILES = sorted(Path(loadtest.__file__).parent.rglob("*.py"))


def test_it_knows_no_server() -> None:
    packages = {module.split(".")[0] for file in FILES for module in imports(file)}
    assert packages & {"dsi_ray", "ray", "torch", "transformers"} == set()


def test_files_are_small() -> None:
    assert [file for file in FILES if len(file.read_text().splitlines()) > 300] == []
