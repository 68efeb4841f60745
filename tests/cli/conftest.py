"""The command in a process of its own, as users run it."""

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import ray

from dsi_ray.cli.terminal import shield
from dsi_ray.experiments.processes import parents, stats

COMMAND = [sys.executable, "-c", "from dsi_ray.cli import app; app(prog_name='dsi-ray')"]
SIMULATED = [
    "--target=simulated:tpot_ms=10",
    "--drafter=simulated:tpot_ms=2,acceptance_rate=0.8",
]


@pytest.fixture(autouse=True)
def _no_second_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that runs in the tests' own process must not go on in a child of it."""
    monkeypatch.setattr(shield, "_go_on_in_a_session", lambda: None)
    monkeypatch.setenv(shield._CLUSTER_VARIABLE, "1")


@pytest.fixture(scope="session")
def on_cluster(ray_cluster: None) -> str:
    """The flag for the tests' own Ray, where a command need not start one."""
    return f"--address={ray.get_runtime_context().gcs_address}"


@pytest.fixture
def port() -> int:
    """A port that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        number: int = unused.getsockname()[1]
        return number


def dsi_ray(*arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """Runs ``dsi-ray`` with arguments and returns what it printed and its exit status."""
    return subprocess.run(
        [*COMMAND, *arguments], input=stdin, capture_output=True, text=True, timeout=240
    )


def descendants(pid: int) -> set[int]:
    """The ids of all processes that ``pid`` and its children have started and that still run."""
    children: dict[int, list[int]] = {}
    for child, parent in parents().items():
        children.setdefault(parent, []).append(child)
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        new = children.get(waiting.pop(), [])
        found.update(new)
        waiting += new
    return found


def titles(pid: int) -> dict[int, str]:
    """What the processes that ``pid`` has started call themselves: Ray names its actors."""
    found = {}
    for child in descendants(pid):
        # It may have ended.
        with contextlib.suppress(OSError):
            found[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ").strip()
    return found


def listening(pid: int) -> set[str]:
    """The addresses, as the kernel writes them, on which a process waits for connections."""
    with contextlib.suppress(OSError):
        sockets = {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()}
        tables = [Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6")]
        rows = [row.split() for table in tables for row in table.splitlines()[1:]]
        listens = "0A"
        return {
            row[1].partition(":")[0]
            for row in rows
            if row[3] == listens and f"socket:[{row[9]}]" in sockets
        }
    return set()


def still_running(pids: set[int]) -> set[int]:
    """Those of ``pids`` that have not ended; what nobody has asked for its status has."""
    return {pid for pid, (state, *_) in stats() if pid in pids and state != "Z"}
