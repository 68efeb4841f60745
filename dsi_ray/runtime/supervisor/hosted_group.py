"""HostedGroup: a DSI group, as the process that builds it holds it."""

from collections.abc import Callable
from typing import Any

import ray
from ray.util.placement_group import remove_placement_group

from dsi_ray.config import ConfigError, EngineConfig
from dsi_ray.runtime.coordinator.coordinator import Coordinator
from dsi_ray.runtime.coordinator.placement import bundles, create_placement_group, in_bundle
from dsi_ray.runtime.errors import EngineError
from dsi_ray.runtime.group_info import GroupInfo
from dsi_ray.runtime.ray.errors import root_cause


class HostedGroup:
    """A placement group and the coordinator in it, which owns the servers.

    They end with the process that builds them. It asks Ray for all of it at once; :meth:`load`
    waits for it.

    Args:
        config: What the group is made of.
        index: Which of several groups, for names.

    Attributes:
        coordinator: The actor.
    """

    def __init__(self, config: EngineConfig, index: int) -> None:
        self._config = config
        self._placement = create_placement_group(config)
        actor = ray.remote(Coordinator).options(
            num_cpus=0,
            scheduling_strategy=in_bundle(self._placement, 0),
            max_concurrency=10_000,
            enable_task_events=False,
        )
        self.coordinator: Any = actor.remote(config, self._placement, index)
        self._started = self.coordinator.start.remote()

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
                f"{bundles(self._config)}: ask for fewer groups, servers, devices or labels, "
                "or add nodes"
            ) from None
        try:
            return ray.get(self._started)  # type: ignore[no-any-return]
        except ray.exceptions.RayTaskError as error:
            raise root_cause(error) from None
        except ray.exceptions.RayActorError as error:
            raise EngineError(f"the group did not start: {error}") from error

    def when_lost(self, call: Callable[[], None]) -> None:
        """Has ``call`` called, once and in a thread of Ray's, when the coordinator has died."""
        self.coordinator.live.remote().future().add_done_callback(lambda _: call())

    def answers(self, within_s: float) -> bool:
        """Whether the coordinator answers in time, or is dead: then it does not hang."""
        ready, _ = ray.wait([self.coordinator.__ray_ready__.remote()], timeout=within_s)
        return bool(ready)

    def kill(self) -> None:
        """Ends the coordinator, and its servers with it."""
        ray.kill(self.coordinator)

    def close(self) -> None:
        """Ends all actors and frees their devices, also of a group that is lost or half built."""
        self.kill()
        remove_placement_group(self._placement)
