"""Runs the application in the foreground."""

import contextlib
import io
import logging
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import ray
from ray import serve

from dsi_ray.config import ConfigError
from dsi_ray.runtime.errors import EngineError
from dsi_ray.runtime.ray.cluster import connect
from dsi_ray.serving.app import APP_NAME, build_app
from dsi_ray.serving.config import ServingConfig
from dsi_ray.serving.proxy import CALLBACK_VARIABLE, middlewares

_ERROR_LINE = re.compile(r"^(?:[\w.]+\.)?(\w+Error)(?:\(\w+\))?: (.+)$", re.MULTILINE)
_POLL_S = 0.1
_HEALTH_TIMEOUT_S = 10.0
_CONFIG_ERRORS = ("ConfigError", "ModelError")


@contextlib.contextmanager
def running(config: ServingConfig) -> Iterator[str]:
    """Serves ``config`` inside a ``with`` block and gives the URL; leaves no process behind.

    What is in flight at the end of the block may take ``shutdown_timeout_s`` to end.

    Raises:
        ConfigError: The engine cannot be built as configured, or the port is taken.
        EngineError: The engine failed to start.
    """
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    if config.address is None:
        _check_port(config)
    os.environ.setdefault(CALLBACK_VARIABLE, f"{middlewares.__module__}:{middlewares.__name__}")
    owns_ray = connect(config.address)
    interrupted = False
    try:
        try:
            _deploy(config)
        except (KeyboardInterrupt, SystemExit):
            interrupted = True
            raise
        yield f"http://{config.host}:{config.port}"
    finally:
        if not (owns_ray and interrupted):
            _withdraw()
        if owns_ray:
            ray.shutdown()


def text_facts_at(url: str) -> str:
    """What the server there says of its texts; nothing where its health needs a key."""
    # Not by a handle of Serve's, whose listening to the controller fails aloud when Serve ends.
    health = httpx.get(f"{url}/health", trust_env=False, timeout=_HEALTH_TIMEOUT_S)
    return str(health.json().get("texts", ""))


def stop_signal() -> threading.Event:
    """Returns what SIGINT and SIGTERM set from now on; a second one disturbs nothing."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _deploy(config: ServingConfig) -> None:
    serve.start(http_options={"host": config.host, "port": config.port})
    application = build_app(config)
    try:
        serve.run(application, name=APP_NAME, route_prefix="/")
    except RuntimeError as error:
        raise _cause() or error from error


def _withdraw() -> None:
    """Ends the application when its requests have ended, and leaves a shared cluster as it was."""
    # Serve's own wait gives up after a minute, whatever it allows the replica.
    serve.delete(APP_NAME, _blocking=False)
    while APP_NAME in serve.status().applications:
        time.sleep(_POLL_S)
    if not serve.status().applications:
        # Ray prints to stdout that the controller, which this ends, did not outlive it.
        with contextlib.redirect_stdout(io.StringIO()):
            serve.shutdown()


def _cause() -> ConfigError | EngineError | None:
    """Finds the replicas' own error in Serve's report, which holds its traceback."""
    deployments = serve.status().applications[APP_NAME].deployments.values()
    errors = _ERROR_LINE.findall("\n".join(deployment.message for deployment in deployments))
    if not errors:
        return None
    kind, text = errors[-1]
    if kind in _CONFIG_ERRORS:
        return ConfigError(text)
    return EngineError(text if kind == EngineError.__name__ else f"{kind}: {text}")


def _check_port(config: ServingConfig) -> None:
    try:
        with socket.create_server((config.host, config.port)):
            return
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"cannot listen on {config.host}:{config.port} ({reason}): "
            "choose another with --host and --port"
        ) from error
