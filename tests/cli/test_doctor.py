"""``dsi-ray doctor`` on the session's Ray."""

import json
import socket

import pytest
from typer.testing import CliRunner, Result

from dsi_ray.cli import app

pytestmark = pytest.mark.usefixtures("starts_ray")


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", "--target=simulated:tpot_ms=3", *arguments])


def test_all_is_well(ray_cluster: None, port: int) -> None:
    result = doctor(f"--port={port}", "--json")
    assert result.exit_code == 0
    found = {one["check"]: one["state"] for one in json.loads(result.stdout)}
    assert {found[check] for check in ("Python", "port", "target", "drafter", "Ray")} == {"ok"}


def test_a_failure_says_what_to_do(ray_cluster: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = doctor(f"--port={taken.getsockname()[1]}")
    assert result.exit_code == 1
    assert "failed   port: 127.0.0.1" in result.stdout
    assert "→ end what listens there" in result.stdout
