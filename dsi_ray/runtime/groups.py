"""Groups: which DSI group serves a request, and another in the place of a lost one."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from dsi_ray.config import EngineConfig
from dsi_ray.runtime.backoff import backoff
from dsi_ray.runtime.coordinator import GroupInfo
from dsi_ray.runtime.errors import GroupLost
from dsi_ray.runtime.group_handle import GroupHandle
from dsi_ray.runtime.router import Router
from dsi_ray.runtime.trace.spans import Trace

_LOGGER = logging.getLogger(__name__)


class Groups:
    """The groups of an engine, all alike, and the router before them. For many threads.

    Attributes:
        info: Facts about each of them.

    Raises:
        ConfigError: The cluster has not the devices.
        ModelError: A model cannot be used.
        EngineError: A server failed.
    """

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._router = Router(config.num_groups)
        self._down: dict[int, str] = {}
        """Why a group serves nothing, by its index."""
        self._rebuilds = [0] * config.num_groups
        # Over the router and what is down. Nobody calls Ray while holding it.
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._builders: dict[int, threading.Thread] = {}
        # All are asked for before the first is waited for.
        self._groups = [GroupHandle(config) for _ in range(config.num_groups)]
        try:
            self.info: GroupInfo = [group.load() for group in self._groups][0]
        except BaseException:
            self.close()
            raise
        for index, group in enumerate(self._groups):
            self._watch(index, group)

    @contextlib.contextmanager
    def lend(self, prompt: Sequence[int], max_tokens: int) -> Iterator[GroupHandle]:
        """Gives the group that is to serve a request, for the length of a ``with`` block.

        Raises:
            GroupLost: All groups are lost.
        """
        cost = len(prompt) + max_tokens
        with self._lock:
            index = self._router.choose(prompt)
            self._router.begin(index, cost)
            group = self._groups[index]
        try:
            yield group
        except GroupLost:
            # Whoever hears of it first: the next request must not go there.
            self._lose(index, group)
            raise
        finally:
            with self._lock:
                self._router.end(index, cost)

    async def status(self) -> list[dict[str, Any]]:
        """What each group does now."""
        return await asyncio.gather(*map(self._status, range(len(self._groups))))

    async def trace(self, request: str, since: float) -> list[Trace]:
        """What the groups know of a request, whose parts may be in several, in order of parts."""
        up = [group for index, group in enumerate(self._groups) if index not in self._down]
        found = await asyncio.gather(*(_trace(group, request, since) for group in up))
        traces = [trace for some in found for trace in some]
        return sorted(traces, key=lambda trace: (len(trace.request), trace.request))

    def close(self) -> None:
        """Ends all groups, those that are being built too."""
        with self._lock:
            self._closed.set()
        for group in self._groups:
            group.close()
        for builder in self._builders.values():
            builder.join()

    async def _status(self, index: int) -> dict[str, Any]:
        status: dict[str, Any] = {"healthy": False, "error": self._down.get(index)}
        if index not in self._down:
            try:
                status = await self._groups[index].status()
            except GroupLost as error:
                status["error"] = str(error)
        return {**status, "rebuilds": self._rebuilds[index]}

    def _watch(self, index: int, group: GroupHandle) -> None:
        group.when_lost(lambda: self._lose(index, group))

    def _lose(self, index: int, group: GroupHandle) -> None:
        """Has a group built again, once, however many notice that it is gone."""
        with self._lock:
            if self._closed.is_set() or index in self._down or group is not self._groups[index]:
                return
            self._down[index] = "the coordinator was lost"
            self._router.exclude(index)
            # In a thread: event loops come and go, and this may be one of Ray's own threads.
            self._builders[index] = threading.Thread(
                target=self._build_again, args=(index,), name=f"build-group-{index}", daemon=True
            )
            self._builders[index].start()

    def _build_again(self, index: int) -> None:
        for delay in backoff():
            try:
                # What is left of the last one.
                self._groups[index].close()
                if self._closed.wait(delay):
                    return
                group = self._groups[index] = GroupHandle(self._config)
                if self._closed.is_set():
                    continue
                group.load()
                break
            except Exception as error:
                self._down[index] = str(error)
                if not self._closed.is_set():
                    _LOGGER.warning("group %d cannot be built again: %s", index, error)
        with self._lock:
            del self._down[index]
            self._rebuilds[index] += 1
            self._router.include(index)
        self._watch(index, group)


async def _trace(group: GroupHandle, request: str, since: float) -> list[Trace]:
    try:
        return await group.trace(request, since)
    except GroupLost:
        return []
