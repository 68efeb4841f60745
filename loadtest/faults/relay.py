"""Relay: a process that passes packets on between two TUN devices, each after a while."""

import os
import select
import sys
import time
from collections import deque

MTU = 65_000
"""As large as a packet gets: the link is slow in time, not in bytes."""


def relay(one: int, other: int, seconds: float) -> None:
    """Passes on what comes, ``seconds`` later, for ever.

    Args:
        one: File descriptor of a TUN device.
        other: Of another.
        seconds: What each packet waits, either way.
    """
    across = {one: other, other: one}
    waiting: deque[tuple[float, int, bytes]] = deque()
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        readable, _, _ = select.select([one, other], [], [], timeout)
        due = time.monotonic() + seconds
        waiting += [(due, across[fd], os.read(fd, MTU)) for fd in readable]
        while waiting and waiting[0][0] <= time.monotonic():
            _, fd, packet = waiting.popleft()
            os.write(fd, packet)


if __name__ == "__main__":
    relay(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
