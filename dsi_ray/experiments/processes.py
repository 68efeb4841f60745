"""The processes of this machine, from /proc, and which of them make a Ray node."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path


def stats() -> Iterator[tuple[int, list[str]]]:
    """The id of each process, and the fields of its ``stat`` file from its state on."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        # A process that ends meanwhile has no file any more.
        with contextlib.suppress(OSError):
            yield int(file.parent.name), file.read_text().rpartition(")")[2].split()


def parents() -> dict[int, int]:
    """The parent of each process."""
    return {pid: int(fields[1]) for pid, fields in stats()}


def node_of(pid: int) -> int:
    """The process that stands for the Ray node to which a worker process belongs: its parent."""
    try:
        return parents()[pid]
    except KeyError:
        raise ProcessLookupError(pid) from None


def kill_node(pid: int) -> None:
    """Kills all processes of the Ray node to which a worker process belongs: a power failure."""
    node = node_of(pid)
    children = [child for child, parent in parents().items() if parent == node]
    for process in (node, *children):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
