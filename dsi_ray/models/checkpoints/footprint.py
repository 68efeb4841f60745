"""What a model takes of a device's memory, told by its configuration alone."""

from typing import Any, NamedTuple

import torch
from transformers import AutoConfig, AutoModelForCausalLM

_GIB = 2**30
_FOR_WEIGHTS = 0.85
"""Of a device: the rest is for forwards and at least some KV cache."""

_MOST_DEVICES = 64


class Footprint(NamedTuple):
    """In bytes, on all of its devices together.

    Attributes:
        weights: Of the model.
        token: Of a token's keys and values.
    """

    weights: int
    token: int


def footprint(place: dict[str, Any], dtype: str, *, on_gpu: bool) -> Footprint | None:
    """Returns what a checkpoint takes; None where its weights are packed in a way of their own.

    Args:
        place: Where transformers finds it.
        dtype: As in `ModelConfig`.
        on_gpu: Whether it is for a GPU, where ``auto`` is the checkpoint's own dtype.
    """
    config = AutoConfig.from_pretrained(**place)
    if getattr(config, "quantization_config", None) is not None:
        return None
    own = getattr(config, "dtype", None) if on_gpu else None
    resolved = (own or torch.float32) if dtype == "auto" else getattr(torch, dtype)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=resolved)
        with torch.inference_mode():
            kept = model(input_ids=torch.zeros(1, 1, dtype=torch.long)).cache
    layers = [layer for layer in kept.layers if layer.is_initialized]
    return Footprint(
        sum(weights.nbytes for weights in model.parameters()),
        sum(layer.keys.nbytes + layer.values.nbytes for layer in layers),
    )


def devices_for(weights: int, memory: int) -> int | None:
    """Returns the least power of two of devices with ``memory`` each that ``weights`` fit on."""
    count = 1
    while count <= _MOST_DEVICES:
        if weights <= _FOR_WEIGHTS * memory * count:
            return count
        count *= 2
    return None


def remedy(weights: int, memory: int) -> str:
    """What to do about weights that do not fit into a device's ``memory``."""
    count = devices_for(weights, memory)
    if count is None or count == 1:
        return "end what else uses it, or take a smaller dtype or model"
    return f"parallel: {count} would fit, or take a smaller dtype or model"


def gib(size: float) -> str:
    """A number of bytes for people."""
    return f"{size / _GIB:.1f} GiB"
