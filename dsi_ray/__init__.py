"""dsi-ray: Distributed Speculative Inference on Ray."""

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsi_ray.config import EngineConfig
    from dsi_ray.params import SamplingParams
    from dsi_ray.runtime.client.engine import Engine

__all__ = ["Engine", "EngineConfig", "SamplingParams", "__version__"]

try:
    __version__ = version("dsi-ray")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0.0.0"

_HOMES = {
    "Engine": "dsi_ray.runtime.client.engine",
    "EngineConfig": "dsi_ray.config",
    "SamplingParams": "dsi_ray.params",
}


def __getattr__(name: str) -> object:
    """Imports on first use, so that ``dsi-ray --help`` does not wait for Ray and torch."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
