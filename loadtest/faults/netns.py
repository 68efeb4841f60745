"""Two network namespaces and a slow link between them: nodes on one machine, milliseconds apart.

Each has a TUN device, and a process between the two delays the packets. The kernel's own tool for
that, netem, is missing in many containers and small kernels.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from loadtest.errors import LoadTestError
from loadtest.faults.relay import MTU

HOSTS = ("10.77.0.1", "10.77.0.2")
"""Addresses in the two namespaces; nobody else sees them."""

_TUN = "/dev/net/tun"
_TUNSETIFF = 0x400454CA
_IFF_TUN = 0x0001
_IFF_NO_PI = 0x1000
_CLOSED_PORT = 9
_KNOCKS = 10
_POLL_S = 0.05


class SlowLink:
    """Two namespaces, each with one of :data:`HOSTS`, and the link between them.

    A context manager, which kills what still runs in the namespaces.

    Raises:
        LoadTestError: This machine, or this user, cannot have them.
    """

    def __init__(self) -> None:
        if why := unavailable():
            raise LoadTestError(why)
        self._names = [f"dsi-{os.getpid()}-{side}" for side in range(len(HOSTS))]

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._devices = [
                stack.enter_context(_namespace(name, host))
                for name, host in zip(self._names, HOSTS, strict=True)
            ]
            self._relay = self._start_relay(0.0)
            stack.callback(self._stop_relay)
            self._resources = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def delay(self, seconds: float) -> None:
        """Sets what the link adds to each packet, either way. What is under way gets lost."""
        self._stop_relay()
        self._relay = self._start_relay(seconds)

    def start(self, side: int, command: Sequence[str], **settings: Any) -> "subprocess.Popen[str]":
        """Starts a command in a namespace; ``settings`` are those of ``Popen``."""
        inside = ["ip", "netns", "exec", self._names[side], *command]
        return subprocess.Popen(inside, text=True, **settings)

    def kill(self, side: int) -> None:
        """Kills all processes in a namespace: a node without power."""
        _kill_all(self._names[side])

    def _start_relay(self, seconds: float) -> "subprocess.Popen[bytes]":
        arguments = map(str, (*self._devices, seconds))
        command = [sys.executable, "-m", "loadtest.faults.relay", *arguments]
        return subprocess.Popen(command, pass_fds=self._devices)

    def _stop_relay(self) -> None:
        self._relay.kill()
        self._relay.wait()


def unavailable() -> str | None:
    """Why there can be no namespaces here; None if there can."""
    if shutil.which("ip") is None:
        return "network namespaces need the command ip: install iproute2"
    if os.geteuid() != 0 or not os.access(_TUN, os.R_OK | os.W_OK):
        return f"network namespaces need root and {_TUN}"
    try:
        with _namespace(f"dsi-{os.getpid()}-t", HOSTS[0]):
            return None
    except (OSError, subprocess.CalledProcessError) as error:
        return f"network namespaces do not work here: {error}"


def round_trip(host: str) -> float:
    """Seconds to ``host`` and back, the shortest of some: until it refuses a connection."""
    seconds = []
    for _ in range(_KNOCKS):
        started = time.perf_counter()
        with socket.socket() as knock:
            knock.connect_ex((host, _CLOSED_PORT))
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def bytes_exchanged() -> int:
    """Bytes that left the namespace of this process so far, or came into it."""
    total = 0
    for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
        name, _, counts = line.partition(":")
        received, sent = counts.split()[0:9:8]
        total += int(received) + int(sent) if name.strip() != "lo" else 0
    return total


@contextlib.contextmanager
def _namespace(name: str, host: str) -> Iterator[int]:
    """A namespace and a TUN device in it, both of this name; gives the device's descriptor."""
    fd = os.open(_TUN, os.O_RDWR)
    try:
        fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TUN | _IFF_NO_PI))
        _ip("netns", "add", name)
        try:
            # The descriptor stays here while the device moves.
            _ip("link", "set", name, "netns", name)
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "address", "add", f"{host}/24", "dev", name)
            _ip("-n", name, "link", "set", name, "mtu", str(MTU), "up")
            yield fd
        finally:
            _kill_all(name)
            _ip("netns", "delete", name)
    finally:
        os.close(fd)


def _kill_all(name: str) -> None:
    """Kills what runs in a namespace, and returns when nothing does."""
    while True:
        # It fails where a process ends while it looks.
        found = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
        if found.returncode == 0 and not found.stdout:
            return
        for pid in found.stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(_POLL_S)


def _ip(*arguments: str) -> str:
    command = ["ip", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
