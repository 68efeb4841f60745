"""The Ray Serve application: who hosts the groups, and who speaks HTTP.

No ``from __future__ import annotations`` here: Serve turns the builder's arguments into the class
of its annotation only where that is a class, not a string.
"""

import asyncio
from collections.abc import Collection

import ray
from ray import serve
from ray.serve import Application
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle
from starlette.types import ASGIApp

from dsi_ray.runtime.client.engine import Engine
from dsi_ray.runtime.client.groups import Groups
from dsi_ray.runtime.process.fatal import supervise
from dsi_ray.runtime.supervisor.group_directory import GroupDirectory
from dsi_ray.runtime.supervisor.group_supervisor import GroupSupervisor
from dsi_ray.runtime.transport.calls.lease import Lease, ended
from dsi_ray.serving.api import build_api
from dsi_ray.serving.config import ServingConfig
from dsi_ray.serving.middleware.auth import read_keys
from dsi_ray.serving.middleware.edge import Edge

APP_NAME = "dsi-ray"
HOST_NAME = "Groups"
INGRESS_NAME = "Ingress"

_HOST_RETRY_S = 0.5

_SPARE = 256
"""Requests beyond the limits that reach an ingress, to be told so, or that only ask how it is."""

_SERVE_RETRY_AFTER_S = 5
"""Serve knows nothing of how long requests take."""

_SHUTDOWN_POLL_S = 0.1
"""Between looks whether requests are still in flight; the first comes after as much."""

_LONGER_S = 5.0
"""The host's calls end after the last answers, a moment later."""

_OPTIONS = {
    "ray_actor_options": {"num_cpus": 0},
    # What cannot be built the first time cannot be built the second time.
    "max_constructor_retry_count": 1,
    "graceful_shutdown_wait_loop_s": _SHUTDOWN_POLL_S,
}


class Host:
    """Hosts the groups, so that they outlive the processes that speak HTTP.

    It has no ``check_health`` by which Serve might start another: the keeper replaces what it
    loses by itself, and the rest goes on meanwhile.
    """

    def __init__(self, config: ServingConfig) -> None:
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._keeper = GroupSupervisor(config)
        self._keeper.subscribe(self._tell)

    async def roster(self) -> GroupDirectory:
        """How the groups stand."""
        return self._keeper.roster

    async def change(self, known: GroupDirectory, caller: Lease) -> GroupDirectory:
        """How the groups stand, as soon as that is not what the caller knows.

        Serve stops a replica when no call is under way in it: this one lets the groups live as
        long as those who need them, and no longer, even if they are killed.
        """
        changed = asyncio.Event()
        waiting = asyncio.get_running_loop(), changed
        self._waiting.add(waiting)
        end = asyncio.create_task(ended(caller))
        end.add_done_callback(lambda _: changed.set())
        try:
            while self._keeper.roster == known and not end.done():
                await changed.wait()
                changed.clear()
        finally:
            end.cancel()
            self._waiting.discard(waiting)
        return self._keeper.roster

    def _tell(self, _: GroupDirectory) -> None:
        # The keeper calls in threads of its own.
        for loop, changed in list(self._waiting):
            loop.call_soon_threadsafe(changed.set)

    def __del__(self) -> None:
        """Called by Serve when it takes the replica away."""
        if hasattr(self, "_keeper"):
            self._keeper.close()


class Ingress:
    """Speaks HTTP for the groups that the host has. It holds nothing that another could not."""

    def __init__(
        self, config: ServingConfig, keys: Collection[bytes], host: DeploymentHandle
    ) -> None:
        self._config = config
        self._keys = keys
        self._host = host

    async def __serve_build_asgi_app__(self) -> ASGIApp:
        roster = await self._host.roster.remote()
        groups = Groups(roster)
        self._follower = asyncio.create_task(self._follow(groups, roster))
        supervise(self._follower, "the follower of the groups")
        index = serve.get_replica_context().rank.rank
        api = build_api(Engine(self._config, groups), self._config, self._keys, index)
        return Edge(api, api.routes)

    def __del__(self) -> None:
        """Called by Serve when the last answers are out: the groups are not needed any more."""
        if hasattr(self, "_follower"):
            self._follower.cancel()

    async def _follow(self, groups: Groups, roster: GroupDirectory) -> None:
        while True:
            life: Lease = [roster.groups[0].coordinator.live.remote()]
            news = self._host.change.remote(roster, life)
            try:
                roster = await news
            except (ray.exceptions.RayError, RayServeException):
                # The host died. A call waits for the one that Serve starts.
                await asyncio.sleep(_HOST_RETRY_S)
            else:
                groups.update(roster)
            finally:
                news.cancel()
                ray.cancel(life[0])


def build_app(args: ServingConfig) -> Application:
    """Builds the application: ``import_path: dsi_ray.serving.app:build_app``.

    The API keys are read here, where the file and the environment are the user's.
    """
    host = serve.deployment(
        Host,
        name=HOST_NAME,
        # One of each ingress, and those of ingresses that died and are not missed yet.
        max_ongoing_requests=10 * args.num_ingress,
        graceful_shutdown_timeout_s=args.shutdown_timeout_s + _LONGER_S,
        **_OPTIONS,
    )
    # Those that run or wait, and those whose body arrives. The rest is for who asks how it is.
    room = 2 * args.max_bodies + _SPARE
    ingress = serve.deployment(
        serve.ingress()(Ingress),
        name=INGRESS_NAME,
        num_replicas=args.num_ingress,
        # Serve's own queue is for bursts that the replica has not yet looked at. What does not fit
        # there either gets Serve's 503, whose body is plain text.
        max_ongoing_requests=room,
        max_queued_requests=room,
        backpressure_config={"retry_after_s": _SERVE_RETRY_AFTER_S},
        graceful_shutdown_timeout_s=args.shutdown_timeout_s,
        **_OPTIONS,
    )
    return ingress.bind(args, read_keys(args.api_key_file), host.bind(args))
