"""Two Ray nodes on one machine, with a slow network between them."""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from loadtest.errors import LoadTestError
from loadtest.faults.netns import HOSTS, SlowLink

LABEL = "dsi-ray-side"
"""A label of each node: ``near``, where the driver is, or ``far``."""

SIDES = ("near", "far")
ADDRESS = f"{HOSTS[0]}:6379"

_HEAD = ("--head", "--port=6379", "--include-dashboard=false", "--num-gpus=1")
_WORKER = ("--address", ADDRESS, "--num-gpus=2")
"""Not that there are GPUs: they say how many servers that ask for one go where."""

_START_S = 120.0
_OBJECTS = 80_000_000
"""Bytes for Ray's object store, its minimum: tokens travel inline."""


@contextlib.contextmanager
def two_nodes() -> Iterator[SlowLink]:
    """A Ray cluster of two nodes, of which one can be reached only over the link.

    Raises:
        LoadTestError: This machine, or this user, cannot have network namespaces.
        LoadTestError: Ray does not start.
    """
    with tempfile.TemporaryDirectory(prefix="dsi-ray-") as folder, SlowLink() as link:
        for side, name in enumerate(SIDES):
            role = _WORKER if side else _HEAD
            _start(link, side, [*role, f"--labels={LABEL}={name}", f"--temp-dir={folder}/{side}"])
        yield link


def _start(link: SlowLink, side: int, settings: Sequence[str]) -> None:
    """Starts a Ray node and waits for it."""
    command = [
        *(sys.executable, "-m", "ray.scripts.scripts", "start"),
        *("--disable-usage-stats", "--num-cpus=1"),
        *(f"--object-store-memory={_OBJECTS}", f"--node-ip-address={HOSTS[side]}"),
        *settings,
    ]
    start = link.start(side, command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output, _ = start.communicate(timeout=_START_S)
    if start.returncode:
        raise LoadTestError(f"ray start failed: {output.strip().splitlines()[-1]}")
