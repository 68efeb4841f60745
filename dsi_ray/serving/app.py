"""The Ray Serve application.

No ``from __future__ import annotations`` here: Serve turns the builder's arguments into the class
of its annotation only where that is a class, not a string.
"""

from collections.abc import Collection

from ray import serve
from ray.serve import Application
from starlette.types import ASGIApp

from dsi_ray.runtime.engine import Engine
from dsi_ray.serving.api import build_api
from dsi_ray.serving.auth import read_keys
from dsi_ray.serving.config import ServingConfig

APP_NAME = "dsi-ray"
DEPLOYMENT_NAME = "Server"


class Replica:
    """Owns the engine and hosts the HTTP API.

    It has no ``check_health`` by which Serve might start another: the engine replaces what it
    loses by itself, and goes on with the rest meanwhile.
    """

    def __init__(self, config: ServingConfig, keys: Collection[bytes] = ()) -> None:
        self._config = config
        self._keys = keys
        self._engine = Engine(config)

    async def __serve_build_asgi_app__(self) -> ASGIApp:
        return build_api(self._engine, self._config, self._keys)

    def __del__(self) -> None:
        """Called by Serve when it takes the replica away."""
        if hasattr(self, "_engine"):
            self._engine.close()


_SPARE = 256
"""Requests beyond the limits that reach the replica, to be told so, or that only ask how it is."""

_SERVE_RETRY_AFTER_S = 5
"""Serve knows nothing of how long requests take."""

_SHUTDOWN_POLL_S = 0.1
"""Between looks whether requests are still in flight; the first comes after as much."""

Server = serve.deployment(name=DEPLOYMENT_NAME, num_replicas=1, ray_actor_options={"num_cpus": 0})(
    serve.ingress()(Replica)
)


def build_app(args: ServingConfig) -> Application:
    """Builds the application: ``import_path: dsi_ray.serving.app:build_app``.

    The API keys are read here, where the file and the environment are the user's.
    """
    room = args.max_requests + args.max_queued_requests + _SPARE
    server = Server.options(
        # Serve's own queue is for bursts that the replica has not yet looked at. What does not fit
        # there either gets Serve's 503, whose body is plain text.
        max_ongoing_requests=room,
        max_queued_requests=room,
        backpressure_config={"retry_after_s": _SERVE_RETRY_AFTER_S},
        graceful_shutdown_timeout_s=args.shutdown_timeout_s,
        graceful_shutdown_wait_loop_s=_SHUTDOWN_POLL_S,
        # What cannot be built the first time cannot be built the second time.
        max_constructor_retry_count=1,
    )
    return server.bind(args, read_keys(args.api_key_file))
