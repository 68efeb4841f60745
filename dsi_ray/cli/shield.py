"""A signal to the whole process group, or Ctrl-C, must not end Ray's processes: the server's do."""

import contextlib
import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def shield() -> None:
    """Goes on in a child process with a session of its own, where all of Ray will be.

    Terminals, ``timeout`` and some supervisors signal a process group. The parent stays in it,
    interrupts the child when it is told to end, and ends as the child does. It returns in the child
    only. Call it before there are threads, and before Ray is started.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(reading)
        _stand_for(child)
    os.close(writing)
    os.setsid()
    threading.Thread(target=_end_with_parent, args=(reading,), daemon=True).start()


def _end_with_parent(reading: int) -> None:
    # Nobody writes: this returns when the other end is closed, however the parent ended.
    os.read(reading, 1)
    os.kill(os.getpid(), signal.SIGINT)


def _stand_for(child: int) -> NoReturn:
    received: list[int] = []

    def forward(number: int, _: FrameType | None) -> None:
        received.append(number)
        with contextlib.suppress(ProcessLookupError):
            # At SIGTERM Ray, while it starts, would write a stack to stderr and abort.
            os.kill(child, signal.SIGINT)

    for number in _SIGNALS:
        signal.signal(number, forward)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # Agents that Ray was about to start when it was interrupted.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if status and received:
        sys.exit(128 + received[0])
    sys.exit(status if status >= 0 else 128 - status)
