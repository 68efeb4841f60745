"""Checks of this machine: Python, packages, port, disk, shared memory, open files."""

import resource
import shutil
import socket
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from dsi_ray.runtime.doctor.finding import Finding, FindingState, finding

_PYTHON = (3, 11)
_GIB = 2**30
_DISK_BYTES = 5 * _GIB
_FULL = 0.95
"""Of a disk: from there on Ray stops storing objects."""

_SHM_BYTES = _GIB
_OPEN_FILES = 4096
_RAY_TEMP = Path("/tmp/ray")
_SHM = Path("/dev/shm")


def check_python() -> Finding:
    """Whether the interpreter is new enough."""
    version = ".".join(map(str, sys.version_info[:3]))
    wanted = ".".join(map(str, _PYTHON))
    return finding("Python", sys.version_info >= _PYTHON, version, f"install Python {wanted}")


def check_packages(distribution: str = "dsi-ray") -> Iterator[Finding]:
    """Whether installed packages are those that ours asks for."""
    try:
        lines = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:
        yield Finding(
            "packages",
            FindingState.WARNING,
            f"{distribution} is not installed: it runs from its source",
            "pip install -e . in the checkout, so that versions can be checked",
        )
        return
    requirements = [Requirement(line) for line in lines]
    needed = [r for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]
    bad = [
        finding for finding in map(_check_package, needed) if finding.state is not FindingState.OK
    ]
    yield from bad or [
        Finding("packages", FindingState.OK, f"{len(needed)} required ones are there")
    ]


def _check_package(requirement: Requirement) -> Finding:
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        version = ""
    return finding(
        requirement.name,
        bool(version) and requirement.specifier.contains(version, prereleases=True),
        version or "not installed",
        f"pip install '{requirement}'",
    )


def check_port(host: str, port: int) -> Finding:
    """Whether a server can listen."""
    try:
        with socket.create_server((host, port)):
            problem = ""
    except OSError as error:
        problem = error.strerror or str(error)
    return finding(
        "port",
        not problem,
        f"{host}:{port}" + (f": {problem}" if problem else " is free"),
        "end what listens there, or choose another with --host and --port",
    )


def check_disk() -> Finding:
    """Whether Ray has room for logs and for objects that do not fit into memory."""
    folder = _RAY_TEMP if _RAY_TEMP.exists() else _RAY_TEMP.parent
    usage = shutil.disk_usage(folder)
    full = 1 - usage.free / usage.total
    return finding(
        "disk",
        usage.free >= _DISK_BYTES and full < _FULL,
        f"{folder}: {usage.free / _GIB:.1f} GiB free, {full:.0%} full",
        f"delete old sessions below {_RAY_TEMP}, or point Ray elsewhere with RAY_TMPDIR",
        FindingState.WARNING,
    )


def check_shared_memory() -> Finding:
    """Whether Ray's object store fits into shared memory."""
    if not _SHM.exists():
        return Finding("shared memory", FindingState.OK, "none on this system")
    total = shutil.disk_usage(_SHM).total
    return finding(
        "shared memory",
        total >= _SHM_BYTES,
        f"{_SHM}: {total / _GIB:.1f} GiB",
        "in a container: docker run --shm-size 2g, or an emptyDir with medium: Memory",
        FindingState.WARNING,
    )


def check_open_files() -> Finding:
    """Whether a process may have enough connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return finding(
        "open files",
        soft == resource.RLIM_INFINITY or soft >= _OPEN_FILES,
        f"{soft} at once",
        f"ulimit -n {min(hard, 65536)} in the shell that starts Ray",
        FindingState.WARNING,
    )
