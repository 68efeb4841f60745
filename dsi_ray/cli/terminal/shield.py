"""A Ray that a command starts is this command's alone: its signals and its address are."""

import contextlib
import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

from dsi_ray.config import EngineConfig
from dsi_ray.serving.config import ServingConfig

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_CLUSTER_VARIABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Off, Ray listens on the loopback, on any system. It reads this when it is imported."""


def shield(config: EngineConfig) -> None:
    """Keeps signals and other machines from the Ray that ``config`` asks to start here, if any.

    Call it before there are threads, and before Ray is imported: it goes on in a child process.
    """
    if config.address is not None:
        return
    if not isinstance(config, ServingConfig) or config.host in _LOOPBACK:
        os.environ[_CLUSTER_VARIABLE] = "0"
    _go_on_in_a_session()


def _go_on_in_a_session() -> None:
    """Goes on in a child process with a session of its own, where all of Ray will be.

    Terminals, ``timeout`` and some supervisors signal a process group. The parent stays in it,
    interrupts the child when it is told to end, and ends as the child does. It returns in the child
    only.
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
