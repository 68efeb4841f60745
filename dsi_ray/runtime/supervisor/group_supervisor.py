"""Keeper: builds the groups, and another in the place of one that is lost or hangs."""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ray

from dsi_ray.config import EngineConfig
from dsi_ray.models.checkpoints.vocabulary import check_vocabularies
from dsi_ray.runtime.client.text_facts import text_facts
from dsi_ray.runtime.coordinator.placement import on_devices
from dsi_ray.runtime.group_info import GroupInfo
from dsi_ray.runtime.process.fatal import die
from dsi_ray.runtime.supervisor.backoff import backoff
from dsi_ray.runtime.supervisor.group_directory import GroupDirectory, Standing
from dsi_ray.runtime.supervisor.hosted_group import HostedGroup

_LOGGER = logging.getLogger(__name__)

PING_S = 5.0
"""Between looks whether the coordinators answer."""

HANG_S = 30.0
"""A coordinator that answers nothing for so long is killed: none of its turns takes a second."""


class GroupSupervisor:
    """Hosts the groups of an engine, all alike. They end with this process.

    Args:
        config: What they are made of.

    Raises:
        ConfigError: The cluster has not the devices, or the target's generation_config.json asks
            for what cannot be.
        ModelError: A model cannot be used.
        EngineError: A server failed.
    """

    def __init__(self, config: EngineConfig) -> None:
        for drafter in config.drafters:
            check_vocabularies(config.target, drafter)
        config = on_devices(config, ray.cluster_resources().get("GPU", 0))
        self._config = config
        self._subscribers: list[Callable[[GroupDirectory], None]] = []
        # Over what follows. Nobody calls Ray while holding it.
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._threads: set[threading.Thread] = set()
        # All are asked for before the first is waited for.
        self._groups = [HostedGroup(config, index) for index in range(config.num_groups)]
        try:
            infos: list[GroupInfo] = [group.load() for group in self._groups]
            _LOGGER.info(text_facts(config, infos[0].target))
        except BaseException:
            self.close()
            raise
        standing = tuple(Standing(group.coordinator) for group in self._groups)
        # What the least of them can do.
        self._roster = GroupDirectory(min(infos, key=lambda info: info.max_context), standing)
        for index in range(config.num_groups):
            self._watch(index)

    @property
    def roster(self) -> GroupDirectory:
        """How the groups stand."""
        return self._roster

    def subscribe(self, call: Callable[[GroupDirectory], None]) -> None:
        """Has ``call`` called with the roster now and whenever it changes, in any thread."""
        with self._lock:
            self._subscribers.append(call)
            call(self._roster)

    def close(self) -> None:
        """Ends all groups, those that are being built too."""
        with self._lock:
            self._closed.set()
        for group in self._groups:
            group.close()
        for thread in list(self._threads):
            thread.join()

    def _watch(self, index: int) -> None:
        group = self._groups[index]
        group.when_lost(lambda: self._guard(self._lose, index, group))
        self._start(self._kill_if_it_hangs, index, group)

    def _start(self, target: Callable[..., None], *args: object) -> None:
        """Runs it in a thread of its own: callers may be Ray's threads."""

        def run() -> None:
            self._guard(target, *args)
            self._threads.discard(thread)

        thread = threading.Thread(target=run, name=f"keeper-{target.__name__}", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _guard(self, call: Callable[..., None], *args: object) -> None:
        """Ends the process if ``call`` fails: a lost group would stay lost."""
        try:
            call(*args)
        except Exception as error:
            # At the end of the process Ray goes first.
            if ray.is_initialized() and not self._closed.is_set():
                die("the keeper of the groups", error)

    def _kill_if_it_hangs(self, index: int, group: HostedGroup) -> None:
        while group is self._groups[index] and not self._closed.wait(PING_S):
            if not group.answers(within_s=HANG_S):
                self._log(logging.WARNING, index, "hangs: its coordinator is killed")
                group.kill()

    def _lose(self, index: int, group: HostedGroup) -> None:
        """Has a group built again."""
        with self._lock:
            if self._closed.is_set() or group is not self._groups[index]:
                return
            self._stand(index, error="the coordinator was lost")
            self._log(logging.WARNING, index, "was lost with its coordinator")
            self._start(self._build_again, index)

    def _build_again(self, index: int) -> None:
        for delay in backoff():
            try:
                # What is left of the last one.
                self._groups[index].close()
                if self._closed.wait(delay):
                    return
                group = self._groups[index] = HostedGroup(self._config, index)
                if self._closed.is_set():
                    continue
                group.load()
                break
            except Exception as error:
                with self._lock:
                    self._stand(index, error=str(error))
                if not self._closed.is_set():
                    self._log(logging.WARNING, index, f"cannot be built again: {error}")
        with self._lock:
            rebuilds = self._roster.groups[index].rebuilds + 1
            self._stand(index, coordinator=group.coordinator, error=None, rebuilds=rebuilds)
        self._log(logging.INFO, index, "was built again")
        self._watch(index)

    def _stand(self, index: int, **changes: Any) -> None:
        """Notes how a group stands now and tells all who want to know. The lock is held."""
        groups = list(self._roster.groups)
        groups[index] = replace(groups[index], **changes)
        self._roster = replace(self._roster, groups=tuple(groups))
        for call in self._subscribers:
            call(self._roster)

    def _log(self, level: int, index: int, what: str) -> None:
        _LOGGER.log(level, "group %d %s", index, what, extra={"group": index})
