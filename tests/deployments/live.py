"""A cluster, a server on it and a Prometheus that watches both: processes of their own."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.deployments.serve_files import FOLDER, ROOT

_BINARIES = ROOT / ".venv" / "prometheus" / "usr" / "bin"
"""Where ``make test`` puts them."""

DEADLINE_S = 120


def find(name: str) -> str | None:
    """The path of one of Prometheus' programs, or None."""
    return shutil.which(name, path=os.pathsep.join([str(_BINARIES), os.environ["PATH"]]))


def free_port() -> int:
    """A port that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        number: int = unused.getsockname()[1]
        return number


def wait_until(holds: Callable[[], bool], what: Callable[[], object]) -> None:
    """Waits for a condition; ``what`` says what is missing when it does not come true."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.5)


@contextlib.contextmanager
def process(command: Sequence[str], **options: Any) -> Iterator["subprocess.Popen[str]"]:
    """Runs a command during a ``with`` block, at whose end it is told to end."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as running:
        try:
            yield running
        finally:
            running.terminate()


@dataclass(frozen=True)
class Head:
    """A Ray head with a dashboard.

    Attributes:
        address: For drivers.
        dashboard: URL of its REST API.
        services: The list of what is to be scraped.
    """

    address: str
    dashboard: str
    services: Path


@contextlib.contextmanager
def cluster(*settings: str, **environment: str) -> Iterator[Head]:
    """A cluster of one node; ``settings`` are more of those of ``ray start``."""
    # Not pytest's own folder: the paths of sockets may not be long.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        port, dashboard = free_port(), free_port()
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
        command += [*settings, f"--port={port}", f"--temp-dir={folder}"]
        command += [f"--dashboard-port={dashboard}", f"--ray-client-server-port={free_port()}"]
        command += [f"--dashboard-agent-listen-port={free_port()}", "--disable-usage-stats"]
        # Not a session of its own: the kernel would give it as much time as all other tests.
        options: dict[str, Any] = {"stderr": subprocess.DEVNULL, "process_group": 0}
        with process(command, env={**os.environ, **environment}, **options) as head:
            try:
                services = Path(folder) / "prom_metrics_service_discovery.json"
                wait_until(services.exists, lambda: "Ray does not start")
                yield Head(f"127.0.0.1:{port}", f"http://127.0.0.1:{dashboard}", services)
            finally:
                # Asked to end, it would take half a minute.
                os.killpg(head.pid, signal.SIGKILL)


@contextlib.contextmanager
def server(address: str, *arguments: str) -> Iterator[str]:
    """``dsi-ray serve`` on a cluster; gives its URL."""
    program = "from dsi_ray.cli import app; app(prog_name='dsi-ray')"
    command = [sys.executable, "-c", program, "serve", f"--address={address}", "--json"]
    with process([*command, f"--port={free_port()}", *arguments], cwd=ROOT) as running:
        assert running.stdout is not None
        yield json.loads(running.stdout.readline())["url"]


@contextlib.contextmanager
def prometheus(program: str, folder: Path, url: str, services: Path) -> Iterator[str]:
    """A Prometheus with the configuration of ``deployments/``, but quick; gives its URL."""
    config = yaml.safe_load((FOLDER / "prometheus" / "prometheus.yaml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(FOLDER / "prometheus" / name) for name in config["rule_files"]]
    ours, rays = config["scrape_configs"]
    ours["static_configs"] = [{"targets": [httpx.URL(url).netloc.decode()]}]
    rays["file_sd_configs"] = [{"files": [str(services)]}]
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    command = [program, f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"]
    command += [f"--web.listen-address={address}"]
    with process(command, stderr=subprocess.DEVNULL):
        wait_until(lambda: _is_ready(f"http://{address}"), lambda: "Prometheus does not start")
        yield f"http://{address}"


@contextlib.contextmanager
def load(url: str, clients: int) -> Iterator[None]:
    """Clients that ask again and again during a ``with`` block, and leave the machine some time."""
    over = threading.Event()
    body = {"model": "demo", "prompt": "def main():", "max_tokens": 10, "ignore_eos": True}

    def ask() -> None:
        with httpx.Client(base_url=url, timeout=60) as http:
            while not over.wait(0.2):
                http.post("/v1/completions", json=body)

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready").is_success
    except httpx.TransportError:
        return False
