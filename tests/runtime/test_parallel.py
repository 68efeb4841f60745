"""A target server on two devices: the same tokens, and one life."""

from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from transformers import AutoModelForCausalLM

from dsi_ray.config import Algorithm, EngineConfig, ModelConfig
from dsi_ray.core.messages import Role, ServerId
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine
from dsi_ray.runtime.request import Decoding
from dsi_ray.runtime.server.model_server import ModelServer
from dsi_ray.runtime.server.rank_workers import RankWorker

from .conftest import generated, random_prompts

TOKENS = 24


def target(folder: Path) -> ModelConfig:
    """The target in float64, on two devices."""
    return ModelConfig(model=str(folder / "target"), dtype="float64", parallel=2)


@pytest.mark.usefixtures("ray_cluster")
def test_dsi_with_one_target_server_of_two_devices(model_folder: Path) -> None:
    reference = AutoModelForCausalLM.from_pretrained(model_folder / "target", dtype=torch.float64)
    drafter = ModelConfig(model=str(model_folder / "target"), dtype="float64", own_process=False)
    with Engine(EngineConfig(target=target(model_folder), drafters=(drafter,))) as engine:
        for prompt in random_prompts(4):
            expected = generated(reference, prompt, TOKENS)
            for decoding in (Decoding(Algorithm.DSI), Decoding(Algorithm.SI, 3)):
                completion = engine.generate(prompt, SamplingParams(max_tokens=TOKENS), decoding)
                assert completion.tokens == expected
            # Of the drafts of SI none comes too late.
            assert completion.stats.accepted_tokens > 0


@pytest.mark.usefixtures("ray_cluster")
def test_a_server_does_not_outlive_a_follower(model_folder: Path) -> None:
    config = target(model_folder)
    name, group = ServerId(Role.TARGET, 0), 0
    follower = ray.remote(RankWorker).remote(config, name, group, 1)
    server: Any = ray.remote(ModelServer).remote(config, name, group, [follower])
    ray.get(server.load.remote())
    events = server.stream.options(num_returns="streaming").remote()
    ray.kill(follower)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(next(events))
