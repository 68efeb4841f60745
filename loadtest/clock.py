"""Time since a load began."""

import asyncio


class Clock:
    """Starts when it is made, inside a running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()

    def now(self) -> float:
        """Seconds since the start."""
        return self._loop.time() - self._start

    async def until(self, time: float) -> None:
        """Waits; not at all for what is past."""
        await asyncio.sleep(time - self.now())
