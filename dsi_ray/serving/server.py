"""Runs the application in the foreground."""

import logging
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import ray
from ray import serve

from dsi_ray.config import ConfigError
from dsi_ray.runtime.errors import EngineError
from dsi_ray.serving.app import APP_NAME, Server
from dsi_ray.serving.config import ServingConfig

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ERROR_LINE = re.compile(r"(?:[\w.]+\.)?(\w+Error)(?:\(\w+\))?: (.+)")
_CONFIG_ERRORS = {"ConfigError", "ModelError"}


def serve_until_signal(config: ServingConfig, ready: Callable[[str], None]) -> None:
    """Serves ``config`` until SIGINT or SIGTERM; leaves no process behind.

    Args:
        config: What to serve.
        ready: Called with the server's URL once it answers.

    Raises:
        ConfigError: The engine cannot be built as configured, or the port is taken.
        EngineError: The engine failed to start.
    """
    with running(config) as url:
        stop = threading.Event()
        for number in _SIGNALS:
            signal.signal(number, lambda *_: stop.set())
        ready(url)
        stop.wait()


@contextmanager
def running(config: ServingConfig) -> Iterator[str]:
    """Serves ``config`` inside a ``with`` block and gives the URL.

    Ray and Serve are stopped afterwards if they were started here.

    Raises:
        ConfigError: The engine cannot be built as configured, or the port is taken.
        EngineError: The engine failed to start.
    """
    if config.address is None:
        _check_port(config)
    logging.getLogger("ray").setLevel(logging.ERROR)
    ...
