"""GroupHandle: a DSI group, as its engine holds it."""

import asyncio
import weakref
from collections.abc import AsyncGenerator, Callable
from typing import Any

import ray
from ray.util.placement_group import remove_placement_group

from dsi_ray.config import ConfigError, EngineConfig
from dsi_ray.runtime.coordinator import Coordinator, GroupInfo
from dsi_ray.runtime.errors import EngineError
from dsi_ray.runtime.link import Link
from dsi_ray.runtime.placement import bundles, create_placement_group, in_bundle
from dsi_ray.runtime.ray_errors import engine_errors, root_cause
from dsi_ray.runtime.request import Generation, TokenChunk
from dsi_ray.runtime.trace.spans import Trace


class GroupHandle:
    """A placement group and the coordinator in it, which owns the servers.

    Asks Ray for all of it at once; :meth:`load` waits for it.

    Args:
        config: What the group is made of.
    """

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._placement = create_placement_group(config)
        actor = ray.remote(Coordinator).options(
            num_cpus=0,
            scheduling_strategy=in_bundle(self._placement, 0),
            max_concurrency=10_000,
            enable_task_events=False,
        )
        self._coordinator: Any = actor.remote(config, self._placement)
        self._started = self._coordinator.start.remote()
        self._links: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Link] = (
            weakref.WeakKeyDictionary()
        )

    def load(self) -> GroupInfo:
        """Waits for the devices and the models.

        Raises:
            ConfigError: The cluster has not the devices.
            ModelError: A model cannot be used.
            EngineError: A server failed.
        """
        try:
            ray.get(self._placement.ready(), timeout=self._config.placement_timeout_s)
        except ray.exceptions.GetTimeoutError:
            raise ConfigError(
                f"the cluster has no room for {self._config.num_groups} x the bundles "
                f"{bundles(self._config)}: ask for fewer groups, servers or devices, or add nodes"
            ) from None
        try:
            return ray.get(self._started)  # type: ignore[no-any-return]
        except ray.exceptions.RayTaskError as error:
            raise root_cause(error) from None
        except ray.exceptions.RayActorError as error:
            raise EngineError(f"the group did not start: {error}") from error

    def when_lost(self, call: Callable[[], None]) -> None:
        """Has ``call`` called, once and in a thread of Ray's, when the coordinator has died."""
        self._coordinator.live.remote().future().add_done_callback(lambda _: call())

    def generate(self, generation: Generation) -> AsyncGenerator[TokenChunk, None]:
        """The tokens of a request as they are committed. Closing it ends the request everywhere.

        Raises:
            GroupLost: The coordinator died.
            EngineError: The request failed.
        """
        link = self._links.setdefault(asyncio.get_running_loop(), Link(self._coordinator))
        return link.generate(generation)

    def complete(self, generation: Generation) -> TokenChunk:
        """All tokens of a request at once. Raises what :meth:`generate` does."""
        with engine_errors():
            return ray.get(self._coordinator.complete.remote(generation))  # type: ignore[no-any-return]

    async def stop(self, request: str) -> None:
        """Ends a request whose text is complete. Raises what :meth:`generate` does."""
        with engine_errors():
            await self._coordinator.stop.remote(request)

    async def status(self) -> dict[str, Any]:
        """What the group and each of its servers do now. Raises what :meth:`generate` does."""
        with engine_errors():
            return await self._coordinator.status.remote()  # type: ignore[no-any-return]

    async def trace(self, request: str, since: float) -> list[Trace]:
        """What each server did for a request. Raises what :meth:`generate` does."""
        with engine_errors():
            return await self._coordinator.trace.remote(request, since)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Ends all actors and frees their devices, also of a group that is lost or half built."""
        ray.kill(self._coordinator)
        remove_placement_group(self._placement)
