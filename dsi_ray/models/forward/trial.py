"""A trial at the start: whether batches and rejected drafts leave alone what a model says."""

import logging
import math
import threading
from collections.abc import Callable

import torch
from torch import Tensor

from dsi_ray.core.path import Path
from dsi_ray.models.base import ModelError
from dsi_ray.models.forward.device_errors import is_out_of_memory
from dsi_ray.models.forward.far_trial import far_length, far_trial
from dsi_ray.models.forward.packed_model import PackedJob, PackedModel, PackedStep
from dsi_ray.models.kv.kv_cache import KVCache

_LOGGER = logging.getLogger(__name__)

_TRIAL_BLOCKS = 2

_TEXTS = 3
"""A fault shows in each of them. A near-tie, such as between two experts, does not."""

_NOISE = 4.0
"""Of rounding errors that add up layer by layer, in units of the dtype's resolution."""

_LEAST_TOLERANCE, _MOST_TOLERANCE = 1e-3, 0.15
"""What lies above is no noise: a draft that stays in the cache moves logits by 0.2 or more."""


def try_out(name: str, model: PackedModel) -> None:
    """Compares batches with forwards of transformers' own.

    In one of them a draft is rejected, and one is behind as long a text as it takes to pass each
    limit of attention that the model's configuration names.

    Raises:
        ModelError: They differ.
    """
    try:
        near = _agrees(model, _near_trial)
        far = not far_length(model) or _agrees(model, far_trial)
    except ModelError as error:
        raise ModelError(f"{name}: {error}") from error
    except Exception as error:
        if is_out_of_memory(error):
            raise ModelError(
                f"{name}: the device has no room for a forward beside the weights; take more "
                "devices (parallel), or a smaller dtype"
            ) from error
        # What torch says of it, such as sizes of tensors, is for who reads the log.
        _LOGGER.warning("%s: a trial forward failed", name, exc_info=error)
        raise ModelError(
            f"{name}: its attention cannot be batched; use a model with plain attention in every "
            "layer"
        ) from error
    if not near:
        raise ModelError(
            f"{name}: its cache cannot take back a rejected draft, or its attention cannot "
            "tell requests apart; use a model with plain attention in every layer"
        )
    if not far:
        raise ModelError(
            f"{name}: behind a long text it says something else in a batch than alone; use a "
            "model with plain attention in every layer"
        )


Trial = Callable[[PackedModel, int], tuple[Tensor, Tensor]]
"""Takes the index of a text; logits that are expected, and that are found: (rows, vocabulary)."""


def _agrees(model: PackedModel, trial: Trial) -> bool:
    return any(_close(model, *trial(model, text)) for text in range(_TEXTS))


def _close(model: PackedModel, expected: Tensor, found: Tensor) -> bool:
    if expected.isnan().any():
        raise ModelError(f"it gives no numbers in {expected.dtype}; choose another dtype")
    resolution = torch.finfo(expected.dtype).eps
    noise = _NOISE * resolution * math.sqrt(model.layers)
    tolerance = min(max(noise, _LEAST_TOLERANCE), _MOST_TOLERANCE)
    apart, spread = _distance(expected, found)
    # A model that finds all tokens alike has only noise to compare.
    return apart <= max(tolerance * spread, resolution)


def _distance(expected: Tensor, found: Tensor) -> tuple[float, float]:
    """How far logits are apart, and how far they spread, as root mean squares.

    What is the same for all tokens of a position does not count, nor do tokens that the model
    itself rules out.
    """
    kept = expected > torch.finfo(expected.dtype).min / 2
    centred = []
    for logits in (expected, found):
        rows = logits.double().where(kept, 0)
        centred.append(rows - rows.mean(-1, keepdim=True))
    root = math.sqrt(expected.numel())
    return float((centred[0] - centred[1]).norm()) / root, float(centred[0].norm()) / root


def _near_trial(model: PackedModel, text: int) -> tuple[Tensor, Tensor]:
    long, short = (
        tuple((token + 7 * text) % model.known_ids for token in path)
        for path in ((1, 2, 3, 4, 5), (6, 7))
    )
    detour = (*long[:3], *short)
    cache = KVCache(_TRIAL_BLOCKS)
    expected = torch.cat([model.plain(long)[-2:], model.plain(short)[-1:]])
    # Alone first: what has layers on several devices learns here where each of them is.
    _forward(model, cache, {"long": detour}, (1,))
    _forward(model, cache, {"long": detour, "short": short[:1]}, (1, 1))
    return expected, _forward(model, cache, {"long": long, "short": short}, (2, 1))


def _forward(
    model: PackedModel, cache: KVCache, paths: dict[str, tuple[int, ...]], wanted: tuple[int, ...]
) -> Tensor:
    jobs = []
    for (key, path), rows in zip(paths.items(), wanted, strict=True):
        segment = cache.reserve(key, Path.of(path), len(path) + 1 - rows, paths)
        assert segment is not None
        jobs.append(PackedJob(path[segment.cached :], rows, segment))
    logits = model.forward(PackedStep.of(jobs, cache.pool), threading.Event())
    for key, path in paths.items():
        cache.commit(key, Path.of(path))
    return logits
