"""What a checkpoint's files say about its texts: where they end, and how to sample them."""

from collections.abc import Iterable
from typing import Any

from transformers import AutoConfig, GenerationConfig, PreTrainedConfig
from transformers.utils import has_file

from dsi_ray.models.base import ModelError
from dsi_ray.models.checkpoints.checkpoint import locate
from dsi_ray.params import RECOMMENDED

_FILE = "generation_config.json"


def find_eos_ids(source: str, tokenizer: Any | None) -> dict[int, list[str]]:
    """Returns the ids that end a text, each with the files that say so.

    Checkpoints differ in which of their files tells the truth, and none of the ids is text. Only
    where none of them says anything does the architecture's default count.

    Args:
        source: A directory, a hub id or a GGUF file.
        tokenizer: Of transformers; None if there is none.

    Raises:
        ModelError: One of the files cannot be read.
    """
    place = locate(source)
    config, _ = PreTrainedConfig.get_config_dict(**place)
    said = {
        _FILE: _ids(_read(source).eos_token_id),
        "config.json": [
            *_ids(config.get("eos_token_id")),
            *_ids((config.get("text_config") or {}).get("eos_token_id")),
        ],
        "tokenizer": _ids(None if tokenizer is None else tokenizer.eos_token_id),
    }
    if not any(said.values()):
        default = AutoConfig.from_pretrained(**place).get_text_config(decoder=True)
        said = {"architecture": _ids(getattr(default, "eos_token_id", None))}
    found: dict[int, list[str]] = {}
    for file, ids in said.items():
        for token in dict.fromkeys(ids):
            found.setdefault(token, []).append(file)
    return found


def find_sampling_defaults(source: str) -> tuple[tuple[str, float], ...]:
    """Returns the sampling parameters that the checkpoint's authors recommend, by name.

    As in vLLM, they count whatever ``do_sample`` says.

    Raises:
        ModelError: The file cannot be read.
    """
    generation = _read(source)
    found = ((name, getattr(generation, name)) for name in RECOMMENDED)
    return tuple((name, value) for name, value in found if value is not None)


def _read(source: str) -> GenerationConfig:
    """What the file says; all None where there is none, as in many checkpoints."""
    place = locate(source)
    folder = place["pretrained_model_name_or_path"]
    if not has_file(folder, _FILE):
        return GenerationConfig()
    local = place.get("local_files_only", False)
    try:
        return GenerationConfig.from_pretrained(folder, local_files_only=local)
    except OSError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ModelError(f"{source}: {_FILE} cannot be read ({reason}); correct it") from error


def _ids(value: int | Iterable[int] | None) -> list[int]:
    if value is None:
        return []
    return [value] if isinstance(value, int) else list(value)
