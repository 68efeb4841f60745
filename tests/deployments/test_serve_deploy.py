"""``serve deploy`` of the files: on a CPU as they are, for GPUs up to the placement."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from dsi_ray.runtime.placement import bundles
from tests.deployments.serve_files import APP_NAME, FILES, FOLDER, serving_config

DEADLINE_S = 240
BIN = Path(sys.executable).parent
# More than any file asks for. Ray believes what it is told: there are no such devices.
NODE = [
    "--num-cpus=64",
    "--num-gpus=64",
    '--resources={"accelerator_type:H100":9,"accelerator_type:L4":9}',
]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        number: int = unused.getsockname()[1]
        return number


@pytest.fixture(scope="module")
def dashboard(starts_ray: None) -> Iterator[httpx.Client]:
    """A cluster of its own with the REST API that `serve deploy` speaks to."""
    port = free_port()
    ports = {
        "port": free_port(),
        "dashboard-port": port,
        "dashboard-agent-listen-port": free_port(),
        "ray-client-server-port": free_port(),
    }
    command = [str(BIN / "ray"), "start", "--head", "--block", *NODE]
    with subprocess.Popen(
        [*command, *(f"--{name}={value}" for name, value in ports.items())],
        # Without a hub it would look for the models for minutes before it asks for devices.
        env={**os.environ, "RAY_ADDRESS": "", "HF_HUB_OFFLINE": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as head:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                until(lambda: answers(client))
                yield client
        finally:
            os.killpg(head.pid, signal.SIGKILL)


def answers(dashboard: httpx.Client) -> bool:
    try:
        return dashboard.get("/api/serve/applications/").status_code == 200
    except httpx.TransportError:
        return False


def until(holds: Callable[[], Any]) -> Any:
    """Polls until something holds, and returns it."""
    deadline = time.monotonic() + DEADLINE_S
    while not (value := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return value


@pytest.fixture
def deploy(dashboard: httpx.Client, tmp_path: Path) -> Iterator[Callable[[Path], int]]:
    """Deploys a file, on a port that is free; returns the port."""

    def run(file: Path) -> int:
        config = yaml.safe_load(file.read_text())
        port = config["http_options"]["port"] = free_port()
        copy = tmp_path / file.name
        copy.write_text(yaml.safe_dump(config))
        command = [str(BIN / "serve"), "deploy", str(copy), f"--address={dashboard.base_url}"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
        assert result.returncode == 0, result.stderr
        return port

    yield run
    dashboard.delete("/api/serve/applications/").raise_for_status()
    until(lambda: not placements(dashboard))


def placements(dashboard: httpx.Client) -> list[dict[str, Any]]:
    """The placement groups that hold devices or wait for them."""
    answer = dashboard.get("/api/v0/placement_groups", params={"detail": True}).json()
    groups: list[dict[str, Any]] = answer["data"]["result"]["result"]
    return [group for group in groups if group["state"] != "REMOVED"]


def in_order(bundle: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(bundle.items())


def test_the_laptop_answers(dashboard: httpx.Client, deploy: Callable[[Path], int]) -> None:
    port = deploy(FOLDER / "laptop.yaml")

    def status() -> str:
        application = dashboard.get("/api/serve/applications/").json()["applications"][APP_NAME]
        assert application["status"] != "DEPLOY_FAILED", application
        return str(application["status"])

    until(lambda: status() == "RUNNING")
    body = {"model": "demo", "prompt": "def main():", "max_tokens": 5, "ignore_eos": True}
    answer = httpx.post(f"http://127.0.0.1:{port}/v1/completions", json=body, timeout=60)
    assert answer.json()["usage"]["completion_tokens"] == 5


@pytest.mark.parametrize("name", [file.name for file in FILES if file.name != "laptop.yaml"])
def test_groups_for_gpus_get_their_devices(
    name: str, dashboard: httpx.Client, deploy: Callable[[Path], int]
) -> None:
    deploy(FOLDER / name)

    def created() -> list[dict[str, Any]]:
        return [group for group in placements(dashboard) if group["state"] == "CREATED"]

    (group,) = until(created)
    wanted = bundles(serving_config((FOLDER / name).read_text()))
    placed = [bundle["unit_resources"] for bundle in group["bundles"]]
    assert sorted(map(in_order, placed)) == sorted(map(in_order, wanted))
