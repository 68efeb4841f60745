"""The KV cache gets what weights and forwards leave of a device, and no more."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import CONTEXT, LAYERS, served_model

from dsi_ray.config import ModelConfig
from dsi_ray.models.checkpoints import memory
from dsi_ray.models.checkpoints.memory import DeviceMemory, cache_bytes, kv_cache_budget
from dsi_ray.models.forward.packed_model import PackedModel
from dsi_ray.models.kv.blocks import BlockPool

GIB = 2**30


@given(
    total=st.integers(1, 200 * GIB),
    others=st.integers(0, 200 * GIB),
    weights=st.integers(0, 200 * GIB),
    forward=st.integers(0, 20 * GIB),
    layers=st.integers(1, 100),
    part=st.floats(0.01, 1),
)
def test_weights_cache_and_forward_fit_together(
    total: int, others: int, weights: int, forward: int, layers: int, part: float
) -> None:
    free = max(total - others - weights, 0)
    budget = cache_bytes(DeviceMemory(total, free, weights, forward, layers), part)
    assert budget >= 0
    if budget:
        # A layer's copy of what it reads included.
        need = budget + budget / layers + forward
        assert need <= free
        assert weights + need <= part * total


def test_most_of_what_is_free_is_used() -> None:
    # 8B in bfloat16 on a GPU of 80 GB.
    found = cache_bytes(DeviceMemory(80 * GIB, 63 * GIB, 16 * GIB, GIB, 32), 1)
    assert 0.85 * 62 * GIB < found < 62 * GIB
    half = cache_bytes(DeviceMemory(80 * GIB, 63 * GIB, 16 * GIB, GIB, 32), 0.5)
    assert half < 0.5 * found


class FakeDevice:
    """What torch would tell of a GPU with the model on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.peak = 0
        for name, told in {
            "empty_cache": lambda: None,
            "synchronize": lambda _: None,
            "reset_peak_memory_stats": lambda _: None,
            "memory_allocated": lambda _: 10 * GIB,
            "max_memory_allocated": lambda _: 12 * GIB,
            "mem_get_info": lambda _: (60 * GIB, 80 * GIB),
        }.items():
            monkeypatch.setattr(memory.torch.cuda, name, told)


def test_auto_measures_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeDevice(monkeypatch)
    model = served_model("llama", "cpu")
    lengths: list[int] = []
    handle = model.get_input_embeddings().register_forward_pre_hook(
        lambda _, arguments: lengths.append(arguments[0].shape[1])
    )
    packed = PackedModel(model)
    config = ModelConfig(model="x", device="cuda")
    budget = kv_cache_budget(config, packed)
    handle.remove()
    # The largest forward that the model takes.
    assert lengths == [CONTEXT]
    assert budget == cache_bytes(DeviceMemory(80 * GIB, 60 * GIB, 10 * GIB, 2 * GIB, LAYERS), 1)
    shared = kv_cache_budget(ModelConfig(model="x", device="cuda", num_gpus=0.25), packed)
    assert shared == cache_bytes(DeviceMemory(80 * GIB, 60 * GIB, 10 * GIB, 2 * GIB, LAYERS), 0.25)


@pytest.mark.parametrize(
    ("settings", "budget"),
    [
        ({}, memory.FIXED_BYTES),
        ({"device": "cpu"}, memory.FIXED_BYTES),
        ({"device": "cuda", "num_gpus": 0}, memory.FIXED_BYTES),
        ({"device": "cuda", "kv_cache_bytes": 5}, 5),
    ],
)
def test_nothing_is_measured_where_it_is_known_or_cannot_be(
    settings: dict[str, object], budget: int
) -> None:
    config = ModelConfig.model_validate({"model": "x", **settings})
    assert kv_cache_budget(config, PackedModel(served_model("llama", "cpu"))) == budget


def test_a_pool_is_taken_at_once_where_that_is_asked_for() -> None:
    assert BlockPool(1000, at_once=True).size == 1000
    assert BlockPool(1000).size < 1000


@pytest.mark.gpu
def test_the_budget_of_a_real_gpu_can_be_taken() -> None:
    packed = PackedModel(served_model("llama", "cuda"))
    budget = kv_cache_budget(ModelConfig(model="x", device="cuda"), packed)
    assert 0 < budget < torch.cuda.mem_get_info()[0]
    torch.empty(budget, dtype=torch.uint8, device="cuda")
