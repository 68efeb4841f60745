"""Which devices a server of several may be given."""

from typing import Any

import pytest
from pydantic import ValidationError

from dsi_ray.config import EngineConfig, ModelConfig
from dsi_ray.runtime.coordinator.placement import bundles, on_devices

CUDA = {"model": "x", "device": "cuda"}


@pytest.mark.parametrize(
    ("settings", "ranks", "gpus"),
    [
        (CUDA, 1, 1),
        ({**CUDA, "parallel": 4}, 4, 4),
        ({**CUDA, "parallel": 4, "num_gpus": 4}, 4, 4),
        ({**CUDA, "parallel": 4, "parallel_style": "pipeline"}, 1, 4),
        ({"model": "x", "parallel": 2}, 2, None),
        ({**CUDA, "num_gpus": 0.5}, 1, 0.5),
        ({"model": "x", "num_gpus": 2}, 1, 2),
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
        ({**CUDA, "parallel": 2, "num_gpus": 0.5}, "takes as many GPUs"),
        ({**CUDA, "num_gpus": 1.5}, "a whole number, or a part of one"),
        ({"model": "x", "parallel": 2, "own_process": False}, "processes of their own"),
        ({"model": "lookup", "parallel": 2}, "processes of their own"),
        ({"model": "x", "parallel": 2, "parallel_style": "pipeline"}, "pipeline is for GPUs"),
    ],
)
def test_what_cannot_be_shared(settings: dict[str, Any], error: str) -> None:
    with pytest.raises(ValidationError, match=error):
        ModelConfig.model_validate(settings)


@pytest.mark.parametrize(
    ("settings", "gpus", "devices"),
    [
        ({"target": "x", "drafters": ["y"]}, 0, ["cpu", "cpu"]),
        ({"target": "x", "drafters": ["y"]}, 1, ["cuda", "cpu"]),
        ({"target": "x", "drafters": ["y"]}, 2, ["cuda", "cuda"]),
        ({"target": "x", "drafters": ["y"], "sp_degree": 3}, 2, ["cpu", "cuda"]),
        ({"target": "x", "drafters": ["y"], "sp_degree": 3, "num_groups": 2}, 8, ["cuda", "cuda"]),
        ({"target": {"model": "x", "parallel": 2}, "drafters": ["y"]}, 2, ["cuda", "cpu"]),
        ({"target": {"model": "x", "device": "cpu"}, "drafters": ["y"]}, 1, ["cpu", "cuda"]),
        ({"target": {"model": "x", "num_gpus": 0.5}, "drafters": ["y"]}, 1, ["auto", "cpu"]),
        ({"target": "x", "drafters": [CUDA]}, 1, ["cpu", "cuda"]),
        ({"target": "simulated:tpot_ms=1", "drafters": ["lookup"]}, 2, ["auto", "auto"]),
        ({"target": "demo"}, 2, ["cuda", "auto"]),
    ],
)
def test_auto_takes_a_gpu_where_there_is_one(
    settings: dict[str, Any], gpus: float, devices: list[str]
) -> None:
    config = on_devices(EngineConfig.model_validate(settings), gpus)
    models = [config.target, *config.drafters]
    assert [model.device for model in models] == devices
    taken = sum(bundle.get("GPU", 0) for bundle in bundles(config)) * config.num_groups
    assert taken <= gpus
