"""Background: coroutines that nobody awaits."""

import asyncio
from collections.abc import Coroutine
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
