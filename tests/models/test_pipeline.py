"""A model whose layers are on several devices says what it says on one."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import dispatch_model
from tiny import VOCAB, expected_tokens, tiny_model

from dsi_ray.models.base import Extension, Sampling, extend_one
from dsi_ray.models.checkpoints.checkpoint import load_checkpoint
from dsi_ray.models.transformers_model import TransformersModel
from dsi_ray.params import SamplingParams

GREEDY = Sampling(SamplingParams(), prompt_tokens=1)
PATHS = ((3, 1, 4, 1, 5, 9), (3, 1, 4, 7), (3, 1, 4, 7, 8, 8, 2, 3, 4, 5))


def check(kind: str, model: Any) -> None:
    """Compares with one forward without a cache, through a rejection."""
    served = TransformersModel(kind, model, VOCAB, 2**20)
    for path in PATHS:
        found = extend_one(served, Extension("a", path, 3, GREEDY)).tokens
        assert found == expected_tokens(kind, path)[2:]


@pytest.mark.parametrize("kind", ["gemma2", "gpt2", "llama"])
def test_every_layer_moves_its_inputs(kind: str) -> None:
    """As between devices, although there is only one here."""
    model = copy.deepcopy(tiny_model(kind))
    parts = [f"{model.base_model_prefix}.{name}" for name, _ in model.base_model.named_children()]
    check(kind, dispatch_model(model, dict.fromkeys([*parts, "lm_head"], "cpu"), force_hooks=True))
    assert all(hasattr(layer, "_hf_hook") for layer in model.get_decoder().children())


@pytest.mark.gpu
def test_two_gpus(tmp_path: Path) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    tiny_model("llama").save_pretrained(tmp_path)
    model = load_checkpoint(str(tmp_path), "float64", torch.device("cuda", 0), stages=2)
    assert len(set(model.hf_device_map.values())) == 2
    check("llama", model)
