"""The ids that a tokenizer knows, and whether a drafter and a target mean the same by them."""

import json
from pathlib import Path

from dsi_ray.config import ModelConfig
from dsi_ray.core.messages import Role
from dsi_ray.models.base import ModelError


def checkpoint_source(config: ModelConfig, role: Role) -> str | None:
    """Returns the directory, hub id or GGUF file of a model; None for one without a checkpoint."""
    if config.model in ("lookup", "simulated"):
        return None
    if config.model == "demo":
        from dsi_ray.demo import DRAFTER_DIR, TARGET_DIR

        return str(TARGET_DIR if role is Role.TARGET else DRAFTER_DIR)
    return config.model


def token_ids(source: str) -> dict[str, int] | None:
    """Returns each token's id, added tokens included; None if ``source`` has no tokenizer."""
    fast = Path(source).expanduser() / "tokenizer.json"
    if fast.is_file():
        return _fast_token_ids(json.loads(fast.read_text(encoding="utf-8")))
    from transformers import AutoTokenizer

    from dsi_ray.models.checkpoint import locate

    try:
        return dict(AutoTokenizer.from_pretrained(**locate(source)).get_vocab())
    # transformers raises many kinds for a directory that holds no tokenizer.
    except Exception:
        return None
