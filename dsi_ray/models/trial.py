"""A trial at the start: whether batches and rejected drafts leave alone what a model says."""

import threading

import torch
from torch import Tensor

from dsi_ray.core.path import Path
from dsi_ray.models.base import ModelError
from dsi_ray.models.kv_cache import KVCache
from dsi_ray.models.packed_model import Job, PackedModel, Step

_TRIAL_BLOCKS = 2


def try_out(name: str, model: PackedModel) -> None:
    """Compares a batch in which a draft is rejected with forwards of transformers' own.

    Raises:
        ModelError: They differ.
    """
    long, short = (tuple(i % model.known_ids for i in path) for path in ((1, 2, 3, 4, 5), (6, 7)))
    detour = (*long[:3], *short)
    cache = KVCache(_TRIAL_BLOCKS)
    try:
        expected = torch.cat([model.plain(long)[-2:], model.plain(short)[-1:]])
        _forward(model, cache, {"long": detour, "short": short[:1]}, (1, 1))
        found = _forward(model, cache, {"long": long, "short": short}, (2, 1))
    except Exception as error:
        raise ModelError(f"{name}: a trial forward failed ({error})") from error
    spread = (expected.max() - expected.min()).item()
    if (expected - found).abs().max().item() > spread / 100:
        raise ModelError(
            f"{name}: its cache cannot take back a rejected draft, or its attention cannot "
            "tell requests apart; use a model with plain attention in every layer"
        )


def _forward(
    model: PackedModel, cache: KVCache, paths: dict[str, tuple[int, ...]], wanted: tuple[int, ...]
) -> Tensor:
    jobs = []
    for (key, path), rows in zip(paths.items(), wanted, strict=True):
        segment = cache.reserve(key, Path.of(path), len(path) + 1 - rows, paths)
        assert segment is not None
        jobs.append(Job(path[segment.kept :], rows, segment))
    logits = model.forward(Step.of(jobs, cache.pool), threading.Event())
    for key, path in paths.items():
        cache.commit(key, Path.of(path))
    return logits
