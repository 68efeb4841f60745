"""Background: coroutines that nobody awaits."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from dsi_ray.runtime.process.fatal import supervise


class Background:
    """Coroutines that nobody awaits: an exception in one ends the process."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, coroutine: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Runs it on the current loop, which itself would forget it."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        supervise(task, "a background task")
        return task


def call_soon(
    loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *args: object
) -> None:
    """Has ``callback`` called in the event loop, from any thread.

    Once the loop is closed this does nothing: the process is ending, and nobody is left to hear.
    """
    try:
        loop.call_soon_threadsafe(callback, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise
