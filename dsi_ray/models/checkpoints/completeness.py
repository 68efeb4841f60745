"""Whether a checkpoint gives a model all its weights: transformers makes up what is missing."""

from collections.abc import Iterable, Mapping
from typing import Any

from transformers.quantizers import AutoHfQuantizer

from dsi_ray.models.base import ModelError

_NAMED = 3
"""So many tensors are named in a message."""


def refuse_unknown_quantization(source: str, config: Any) -> None:
    """Checks, before any weights are read, that transformers knows how they are quantized.

    Raises:
        ModelError: It does not: it would ignore the quantization.
    """
    text = config.get_text_config(decoder=True)
    settings = getattr(config, "quantization_config", None) or getattr(
        text, "quantization_config", None
    )
    if settings is not None and not AutoHfQuantizer.supports_quant_method(settings):
        method = settings.get("quant_method")
        raise ModelError(
            f"{source}: transformers does not know its quant_method {method!r}; use a checkpoint "
            "that is not quantized, or quantized in another way"
        )


def refuse_incomplete(source: str, model: Any, loading_info: Mapping[str, Any]) -> None:
    """Checks that each weight came from the checkpoint and that none was left over.

    Weights that are tied to others, and those that the architecture may lack, need not be there.

    Args:
        source: For the message.
        model: As loaded.
        loading_info: What transformers gives for ``output_loading_info``.

    Raises:
        ModelError: Names the first tensors at fault.
    """
    unexpected = loading_info["unexpected_keys"]
    faults = {
        "lacks weights": loading_info["missing_keys"],
        "has weights of other sizes than its configuration says": [
            name for name, *_ in loading_info["mismatched_keys"]
        ],
        "has weights for which its architecture has no use": _left_over(model, unexpected),
    }
    for fault, names in faults.items():
        if names:
            raise ModelError(
                f"{source}: it {fault} ({_first(names)}); get the complete checkpoint, with the "
                "config.json that belongs to it"
            )


def _left_over(model: Any, names: Iterable[str]) -> list[str]:
    """Those of ``names`` that belong to a layer which computes without them.

    What stands by itself, such as a vision tower, is no part of the text model.
    """
    if getattr(model, "hf_quantizer", None) is not None:
        return []  # some formats hold scales that need not be used
    layers = {
        name
        for name, module in model.named_modules()
        if any(True for _ in module.parameters(False))
    }
    return [name for name in names if name.rpartition(".")[0] in layers]


def _first(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = len(ordered) - _NAMED
    return ", ".join(ordered[:_NAMED]) + (f" and {more} more" if more > 0 else "")
