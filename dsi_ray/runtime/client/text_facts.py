"""What decides about texts besides the requests, in one line for the start."""

from sys import maxsize
from typing import Any

from pydantic import ValidationError

from dsi_ray.config import ConfigError, EngineConfig, describe
from dsi_ray.models.base import ModelInfo
from dsi_ray.params import SamplingParams


def sampling_defaults(config: EngineConfig, target: ModelInfo) -> dict[str, Any]:
    """Returns the sampling parameters of requests that do not name them.

    Raises:
        ConfigError: The checkpoint recommends what is out of range.
    """
    if config.generation_config == "none":
        return {}
    defaults: dict[str, Any] = dict(target.sampling_defaults)
    try:
        SamplingParams(**defaults)
    except ValidationError as error:
        raise ConfigError(
            f"{target.name}: generation_config.json: {describe(error)}; correct it, or set "
            "generation_config: none"
        ) from error
    return defaults


def text_facts(config: EngineConfig, target: ModelInfo) -> str:
    """How long texts may be, where they end, and how they are sampled where no request says it.

    Raises:
        ConfigError: As `sampling_defaults`.
    """
    ids = " or ".join(map(str, target.eos_ids))
    end = f"Texts end at token {ids}" if ids else "Texts have no end of sequence"
    named = [f"{name} {value}" for name, value in sampling_defaults(config, target).items()]
    length = _length_fact(config, target)
    if not named:
        return f"{length}{end}."
    return (
        f"{length}{end}; what a request leaves out is {', '.join(named)}, as the target's "
        "generation_config.json says (generation_config: none turns that off)."
    )


def _length_fact(config: EngineConfig, target: ModelInfo) -> str:
    asked, longest = config.max_model_len or maxsize, target.longest_text
    if maxsize == longest == asked:
        return ""
    if asked <= longest:
        why = "as max_model_len says"
    elif target.kv_capacity < target.max_context:
        why = (
            f"a server's KV cache holds no more, though the model takes {target.max_context}: "
            "raise kv_cache_bytes"
        )
    else:
        why = target.context_reason or "the model takes no more"
    return f"Prompt and output have at most {min(asked, longest)} tokens: {why}. "
