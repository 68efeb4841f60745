"""``serve deploy`` of the files: on a CPU as they are, for GPUs up to the placement."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from dsi_ray.runtime.coordinator.placement import bundles
from tests.deployments import live
from tests.deployments.serve_files import APP_NAME, FILES, FOLDER, serving_config

DEADLINE_S = 240
# More than any file asks for. Ray believes what it is told: there are no such devices.
NODE = [
    "--num-cpus=64",
    "--num-gpus=64",
    '--resources={"accelerator_type:H100":9,"accelerator_type:L4":9}',
]


@pytest.fixture(scope="module")
def dashboard(starts_ray: None) -> Iterator[httpx.Client]:
    """The REST API that `serve deploy` speaks to, of a cluster of its own."""
    # Without a hub it would look for the models for minutes before it asks for devices.
    with (
        live.cluster(*NODE, HF_HUB_OFFLINE="1") as head,
        httpx.Client(base_url=head.dashboard, timeout=60) as client,
    ):
        live.wait_until(lambda: answers(client), lambda: "the dashboard does not answer")
        yield client


def answers(dashboard: httpx.Client) -> bool:
    try:
        return dashboard.get("/api/serve/applications/").status_code == 200
    except httpx.TransportError:
        return False


def deploy(dashboard: httpx.Client, config: dict[str, Any], folder: Path) -> int:
    """Runs `serve deploy`, with a port that is free; returns the port."""
    port = live.free_port()
    config["http_options"]["port"] = port
    file = folder / "serve.yaml"
    file.write_text(yaml.safe_dump(config))
    program = Path(sys.executable).with_name("serve")
    command = [str(program), "deploy", str(file), f"--address={dashboard.base_url}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert result.returncode == 0, result.stderr
    return port


def test_the_laptop_answers(dashboard: httpx.Client, tmp_path: Path) -> None:
    port = deploy(dashboard, yaml.safe_load((FOLDER / "laptop.yaml").read_text()), tmp_path)

    def status() -> str:
        application = dashboard.get("/api/serve/applications/").json()["applications"][APP_NAME]
        assert application["status"] != "DEPLOY_FAILED", application
        return str(application["status"])

    live.wait_until(lambda: status() == "RUNNING", status)
    body = {"model": "demo", "prompt": "def main():", "max_tokens": 5, "ignore_eos": True}
    answer = httpx.post(f"http://127.0.0.1:{port}/v1/completions", json=body, timeout=60)
    assert answer.json()["usage"]["completion_tokens"] == 5


def test_groups_for_gpus_get_their_devices(dashboard: httpx.Client, tmp_path: Path) -> None:
    """All files at once, each application as it is but for its name and where it answers."""
    files = [file for file in FILES if file.name != "laptop.yaml"]
    config = yaml.safe_load(files[0].read_text())
    config["applications"] = [
        yaml.safe_load(file.read_text())["applications"][0]
        | {"name": file.stem, "route_prefix": f"/{file.stem}"}
        for file in files
    ]
    deploy(dashboard, config, tmp_path)

    def created() -> list[list[list[tuple[str, float]]]]:
        answer = dashboard.get("/api/v0/placement_groups", params={"detail": True}).json()
        return [
            sorted(in_order(bundle["unit_resources"]) for bundle in group["bundles"])
            for group in answer["data"]["result"]["result"]
            if group["state"] == "CREATED"
        ]

    live.wait_until(lambda: len(created()) == len(files), created)
    wanted = [bundles(serving_config(file.read_text())) for file in files]
    assert sorted(created()) == sorted(sorted(map(in_order, group)) for group in wanted)


def in_order(bundle: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(bundle.items())
