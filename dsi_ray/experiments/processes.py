"""The processes of this machine, from /proc."""

import contextlib
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
