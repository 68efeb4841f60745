"""How much of its device's memory a server's KV cache gets."""

import threading
from typing import NamedTuple

import torch
from torch import distributed as dist

from dsi_ray.config import ModelConfig
from dsi_ray.core.path import Path
from dsi_ray.models.forward.packed_model import PackedJob, PackedModel, PackedStep
from dsi_ray.models.kv.blocks import BLOCK_TOKENS
from dsi_ray.models.kv.kv_cache import KVCache

FIXED_BYTES = 2**30
"""The budget where nothing tells how much memory is this server's own."""

_SHARE = 0.9
"""Of what is free; the rest is for what no measurement sees, such as gaps between tensors."""

_DECODING = 256
"""Tokens that a forward may compute beside its chunk of a prompt."""


class DeviceMemory(NamedTuple):
    """A device's memory, in bytes, with a model on it.

    Attributes:
        total: All of it.
        free: What nobody has taken.
        weights: What this process has taken.
        forward: What its largest forward takes besides.
        layers: Number of the model's layers on it.
    """

    total: int
    free: int
    weights: int
    forward: int
    layers: int


def cache_bytes(memory: DeviceMemory, part: float) -> int:
    """Returns the budget of a KV cache; 0 where there is no room for one.

    Args:
        memory: Of its device.
        part: Which part of the device is this server's: all, or what it has asked Ray for.
    """
    room = min(memory.free, part * memory.total - memory.weights) - memory.forward
    # Attention may have to copy what it reads, one layer at a time.
    return max(int(_SHARE * room * memory.layers / (memory.layers + 1)), 0)


def kv_cache_budget(config: ModelConfig, model: PackedModel) -> int:
    """Returns the budget of each device's KV cache: as it is configured, or what there is room for.

    All ranks of a model call it at once. A model in stages has one budget for all its devices.
    """
    if config.kv_cache_bytes != "auto":
        return config.kv_cache_bytes
    if not config.uses_gpu or not config.gpus:
        return FIXED_BYTES
    stages = config.parallel // config.ranks
    part = config.gpus / config.parallel
    budget = min(cache_bytes(memory, part) for memory in _measure(model, config.prefill_chunk))
    if config.ranks == 1:
        return stages * budget
    least = torch.tensor(budget, device=model.device)
    dist.all_reduce(least, dist.ReduceOp.MIN)
    return int(least.item())


def _measure(model: PackedModel, chunk: int) -> list[DeviceMemory]:
    """Computes the largest forward and sees what each of the model's GPUs has left."""
    torch.cuda.empty_cache()
    before = {}
    for device in model.devices:
        torch.cuda.reset_peak_memory_stats(device)
        before[device] = torch.cuda.memory_allocated(device)
    _largest_forward(model, min(chunk + _DECODING, model.max_context))
    found = []
    for device, weights in before.items():
        torch.cuda.synchronize(device)
        forward = torch.cuda.max_memory_allocated(device) - weights
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info(device)
        layers = -(-model.layers // len(before))
        found.append(DeviceMemory(total, free, weights, forward, layers))
    return found


def _largest_forward(model: PackedModel, tokens: int) -> None:
    """A forward of so many tokens, all of whose logits are wanted."""
    cache = KVCache(-(-tokens // BLOCK_TOKENS))
    path = Path.of((0,) * tokens)
    segment = cache.reserve("", path, 1, ())
    assert segment is not None, "the cache is made for it"
    model.forward(
        PackedStep.of([PackedJob(path[:], tokens, segment)], cache.pool), threading.Event()
    )
