"""Which devices a server of several may be given."""

from typing import Any

import pytest
from pydantic import ValidationError

from dsi_ray.config import EngineConfig, ModelConfig
from dsi_ray.runtime.placement import bundles

CUDA = {"model": "x", "device": "cuda"}


@pytest.mark.parametrize(
    ("settings", "ranks", "gpus"),
    [
        (CUDA, 1, 1),
        ({**CUDA, "parallel": 4}, 4, 4),
        ({**CUDA, "parallel": 4, "num_gpus": 4}, 4, 4),
        ({**CUDA, "parallel": 4, "parallel_style": "pipeline"}, 1, 4),
        ({"model": "x", "parallel": 2}, 2, None),
    ],
)
def test_a_server_is_one_bundle(settings: dict[str, Any], ranks: int, gpus: int | None) -> None:
    target = ModelConfig.model_validate(settings)
    assert target.ranks == ranks
    _, server = bundles(EngineConfig(target=target, drafters=(), algorithm="non-si"))
    assert server.get("GPU") == gpus


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({**CUDA, "parallel": 4, "num_gpus": 2}, "takes as many GPUs"),
        ({**CUDA, "parallel": 4, "num_gpus": 0}, "takes as many GPUs"),
        ({"model": "x", "parallel": 2, "own_process": False}, "processes of their own"),
        ({"model": "lookup", "parallel": 2}, "processes of their own"),
        ({"model": "x", "parallel": 2, "parallel_style": "pipeline"}, "pipeline is for GPUs"),
    ],
)
def test_what_cannot_be_shared(settings: dict[str, Any], error: str) -> None:
    with pytest.raises(ValidationError, match=error):
        ModelConfig.model_validate(settings)
