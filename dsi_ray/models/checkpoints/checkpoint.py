"""Loads a causal language model with transformers, or says in one line why it cannot be used."""

import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import huggingface_hub
import torch
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    DynamicCache,
    DynamicLayer,
    GgufConfig,
)
from transformers.cache_utils import DummyLayer, DynamicSlidingWindowLayer
from transformers.distributed import DistributedConfig
from transformers.utils.logging import disable_progress_bar

from dsi_ray.config import ModelConfig
from dsi_ray.models.base import ModelError
from dsi_ray.models.checkpoints.completeness import refuse_incomplete, refuse_unknown_quantization
from dsi_ray.models.checkpoints.footprint import footprint, gib, remedy
from dsi_ray.models.forward.device_errors import is_out_of_memory

_SAFE = {"trust_remote_code": False}
"""Without it transformers asks on the terminal whether to run a checkpoint's code."""

_CONNECT_S = 3.0

_CROPPABLE = (DynamicLayer, DynamicSlidingWindowLayer, DummyLayer)


def find_device(config: ModelConfig) -> torch.device:
    """Returns where the model runs.

    Raises:
        ModelError: A GPU is asked for and there is none.
    """
    if not config.uses_gpu:
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ModelError(f"{config.model}: torch sees no GPU here; use device: cpu")
    return torch.device("cuda", torch.cuda.current_device())


def load_checkpoint(
    source: str, dtype: str, device: torch.device, ranks: int = 1, stages: int = 1
) -> Any:
    """Returns a transformers model in eval mode on ``device``.

    Args:
        source: A directory, a hub id or a GGUF file. Only a hub id may use the network.
        dtype: As in `ModelConfig`.
        device: Where to put it.
        ranks: Number of processes that load it now, a shard each; they have met.
        stages: Number of devices, all that torch sees, of which each gets some of the layers.

    Raises:
        ModelError: It cannot be found, loaded or split, lacks weights, or its cache cannot be
            cropped.
    """
    disable_progress_bar()  # many servers load at once, into one log
    place = check_checkpoint(source, ranks)
    options: dict[str, Any] = {"dtype": dtype}
    if dtype == "auto" and device.type == "cpu":
        options["dtype"] = "float32"
    if "gguf_file" in place:
        options["quantization_config"] = GgufConfig(dequantize=True)
    options |= _split(source, device, ranks, stages)
    with _in_one_line(source), _saying_what_fits(source, place, dtype, device):
        model, loading_info = AutoModelForCausalLM.from_pretrained(
            **place,
            **options,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # to name them
        )
        refuse_incomplete(source, model, loading_info)
        model.eval().requires_grad_(False)
        return model if stages > 1 else model.to(device)


def _split(source: str, device: torch.device, ranks: int, stages: int) -> dict[str, Any]:
    if stages > 1:
        _need_packages(source, "parallel_style: pipeline", ["accelerate"], "pipeline")
        return {"device_map": "balanced"}
    if ranks == 1:
        return {}
    if device.type == "cpu" and torch.cuda.is_available():
        raise ModelError(
            f"{source}: transformers would split it over GPUs; hide them from servers on CPUs "
            "with CUDA_VISIBLE_DEVICES="
        )
    return {"distributed_config": DistributedConfig(tp_size=ranks)}


def check_checkpoint(source: str, ranks: int = 1) -> dict[str, Any]:
    """Returns the arguments with which transformers finds ``source``, once its configuration says
    that it can be used, by ``ranks`` processes together. No weights are read.

    Raises:
        ModelError: It cannot.
    """
    place = locate(source)
    with _in_one_line(source):
        config = AutoConfig.from_pretrained(**place)
        refuse_unsuitable(source, config)
        refuse_unknown_quantization(source, config)
        refuse_unshardable(source, config, ranks)
    return place


def locate(source: str) -> dict[str, Any]:
    """Returns the arguments with which transformers finds ``source``.

    Raises:
        ModelError: It is a path to nothing, or a GGUF file that cannot be read here.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        return {"pretrained_model_name_or_path": str(path), "local_files_only": True, **_SAFE}
    if path.suffix == ".gguf" and path.is_file():
        _need_packages(source, "GGUF", ["gguf", "accelerate"], "gguf")
        return {
            "pretrained_model_name_or_path": str(path.parent),
            "gguf_file": path.name,
            "local_files_only": True,
            **_SAFE,
        }
    if path.suffix == ".gguf" or path.is_absolute() or source.startswith((".", "~")):
        raise ModelError(f"{source}: no such model directory or GGUF file; correct the path")
    # The hub's own client tries again for half a minute.
    return {
        "pretrained_model_name_or_path": source,
        "local_files_only": not can_reach_hub(),
        **_SAFE,
    }


@cache
def can_reach_hub() -> bool:
    """Whether a connection to the hub, or to the proxy before it, can be opened."""
    proxy = urllib.request.getproxies().get("https")
    address = urllib.parse.urlsplit(proxy or huggingface_hub.constants.ENDPOINT)
    port = address.port or (80 if address.scheme == "http" else 443)
    try:
        socket.create_connection((address.hostname or "", port), _CONNECT_S).close()
    except OSError:
        return False
    return not huggingface_hub.constants.HF_HUB_OFFLINE


def _need_packages(source: str, what: str, packages: list[str], extra: str) -> None:
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        names = " and ".join(missing)
        raise ModelError(f"{source}: {what} needs {names}; pip install 'dsi-ray[{extra}]'")


@contextmanager
def _in_one_line(source: str) -> Iterator[None]:
    """Turns whatever transformers raises (any kind, often many lines) into a ModelError."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{source}: {_explain(source, error)}") from error


def _explain(source: str, error: Exception) -> str:
    lines = str(error).strip().splitlines()
    reason = lines[0].rstrip(".") if lines else type(error).__name__
    if "trust_remote_code" in str(error):
        return (
            "the checkpoint has code of its own, which is never run here; choose one of an "
            "architecture that transformers knows"
        )
    if isinstance(error, ImportError):
        return f"a package is missing ({reason}); install it"
    path = Path(source).expanduser()
    is_there = path.is_file() or (path / "config.json").is_file()
    if not is_there and (path.is_dir() or isinstance(error, OSError)):
        return (
            f"cannot be loaded ({reason}); give a model directory, a hub id that can be reached, "
            "or a GGUF file"
        )
    return f"cannot be loaded ({reason}); see that its files are whole and made for transformers"


@contextmanager
def _saying_what_fits(
    source: str, place: dict[str, Any], dtype: str, device: torch.device
) -> Iterator[None]:
    """Says what is missing, and what would do, where the weights do not fit."""
    try:
        yield
        return
    except Exception as error:
        if not is_out_of_memory(error):
            raise
    # Only here nothing holds what was loaded.
    if device.type != "cuda":
        raise ModelError(f"{source}: this machine's memory is too small; take a smaller model")
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    need = footprint(place, dtype, on_gpu=True)
    takes = f" of {gib(need.weights)}" if need else ""
    raise ModelError(
        f"{source}: its weights{takes} do not fit on the GPU, of which {gib(free)} of {gib(total)} "
        f"are free; {remedy(need.weights if need else 2 * total, total)}"
    )


def refuse_unsuitable(source: str, config: Any) -> None:
    """Checks, before any weights are read, what the configuration tells.

    Raises:
        ModelError: Not a decoder-only causal model, or its state cannot be cropped.
    """
    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(f"{source}: encoder-decoder models are not supported; use a causal one")
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ModelError(f"{source}: {config.model_type} is not a causal language model; use one")
    architecture = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    layers = DynamicCache(config=config).layers
    if architecture._is_stateful or any(type(layer) not in _CROPPABLE for layer in layers):
        raise ModelError(
            f"{source}: {config.model_type} keeps a state that cannot take back a rejected draft; "
            "use a model with plain attention in every layer"
        )


def refuse_unshardable(source: str, config: Any, ranks: int) -> None:
    """Checks that each rank gets whole attention heads.

    Raises:
        ModelError: It would not, or transformers does not know how to split the model.
    """
    text = config.get_text_config(decoder=True)
    if ranks > 1 and not text.base_model_tp_plan:
        raise ModelError(
            f"{source}: {config.model_type} has no plan for tensor parallelism; "
            "use parallel_style: pipeline"
        )
    for kind in ("num_attention_heads", "num_key_value_heads"):
        heads = getattr(text, kind, None) or ranks
        if heads % ranks:
            raise ModelError(
                f"{source}: its {heads} {kind} cannot be split over {ranks} devices; choose a "
                "divisor for parallel"
            )


def context_reason(config: Any) -> str:
    """Why a model takes fewer tokens than its configuration names; empty where it does not."""
    named = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    if named == max_context(config):
        return ""
    return f"longer ones would change what is cached (longrope), though the model takes {named}"


def max_context(config: Any) -> int | None:
    """Returns the most tokens that the model takes; None if its configuration has no limit."""
    text = config.get_text_config(decoder=True)
    limit = getattr(text, "max_position_embeddings", None)
    rope = getattr(text, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        # Beyond this length the rotations of all positions change, also of those that are cached.
        limit = rope.get("original_max_position_embeddings", limit)
    return limit
