"""Check of the GPUs' memory: whether weights and KV caches fit."""

from collections.abc import Iterator

import torch

from dsi_ray.config import EngineConfig, ModelConfig
from dsi_ray.core.messages import Role
from dsi_ray.models.checkpoints.checkpoint import locate
from dsi_ray.models.checkpoints.footprint import Footprint, footprint, gib, remedy
from dsi_ray.models.checkpoints.vocabulary import checkpoint_source
from dsi_ray.runtime.doctor.finding import Finding, FindingState, finding


def check_gpu_memory(config: EngineConfig) -> Iterator[Finding]:
    """What each server on a GPU takes of one like the first that torch sees here.

    Args:
        config: After it was decided which models go on GPUs.
    """
    if not torch.cuda.is_available():
        return
    free, total = torch.cuda.mem_get_info(0)
    models = [("target", config.target, Role.TARGET)]
    models += [("drafter", drafter, Role.DRAFTER) for drafter in config.drafters]
    for name, model, role in models:
        source = checkpoint_source(model, role)
        if source is None or not model.uses_gpu:
            continue
        try:
            need = footprint(locate(source), model.dtype, on_gpu=True)
        # transformers raises any kind; whether the checkpoint can be used at all is checked before.
        except Exception as error:
            reason = " ".join(str(error).split())
            yield Finding(f"{name} memory", FindingState.WARNING, f"unknown: {reason}", "try it")
            continue
        if need is not None:
            yield check_fit(name, model, need, free, total)


def check_fit(name: str, model: ModelConfig, need: Footprint, free: int, total: int) -> Finding:
    """Whether a server's share of weights and KV cache fits on each of its GPUs.

    Args:
        name: What the server is for.
        model: What it runs.
        need: What that takes on all its GPUs together.
        free: Bytes free of a GPU.
        total: All its bytes.
    """
    part = model.gpus / model.parallel if model.gpus else 1.0
    room = int(min(free, part * total))
    weights = need.weights // model.parallel
    known = 0 if model.kv_cache_bytes == "auto" else model.kv_cache_bytes
    left = max(room - weights, 0)
    tokens = (known or left) * model.parallel // max(need.token, 1)
    cache = f"{gib(known)} of" if known else "up to"
    return finding(
        f"{name} memory",
        weights + known <= room and left > 0,
        f"{gib(weights)} of weights and {cache} {gib(left)} for the KV cache ({tokens} tokens) on "
        f"each GPU, of which {gib(room)} of {gib(total)} are free for it",
        remedy(need.weights + known * model.parallel, room),
    )
