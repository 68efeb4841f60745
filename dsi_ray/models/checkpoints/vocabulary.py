"""The ids that a tokenizer knows, and whether target and drafter mean the same by them."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsi_ray.config import ModelConfig
from dsi_ray.core.messages import Role
from dsi_ray.models.base import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def checkpoint_source(config: ModelConfig, role: Role) -> str | None:
    """Returns the directory, hub id or GGUF file of a model; None for one without a checkpoint."""
    if config.model in ("lookup", "simulated"):
        return None
    if config.model == "demo":
        from dsi_ray.demo import DRAFTER_DIR, TARGET_DIR

        return str(TARGET_DIR if role is Role.TARGET else DRAFTER_DIR)
    return config.model


def read_tokenizer(source: str) -> "PreTrainedTokenizerBase | None":
    """Returns the tokenizer of transformers; None if ``source`` has none.

    A file of it alone does not tell: ``tokenizer_config.json`` may add tokens to those of
    ``tokenizer.json``.

    Raises:
        ModelError: There is no such path.
    """
    # Callers of simulated models have no use for these, which take seconds to import.
    from transformers import AutoTokenizer

    from dsi_ray.models.checkpoints.checkpoint import locate

    place = locate(source)
    folder = Path(source).expanduser()
    if folder.is_dir() and not _has_tokenizer(folder):
        # transformers would make one up from the configuration's defaults.
        return None
    try:
        return AutoTokenizer.from_pretrained(**place)
    # transformers raises many kinds for a checkpoint that holds no tokenizer.
    except Exception:
        return None


def _has_tokenizer(folder: Path) -> bool:
    return any(folder.glob("tokenizer*")) or any(folder.glob("vocab.*"))


def vocab_size(tokenizer: Any | None, rows: int, eos_ids: Iterable[int] = ()) -> int:
    """Returns how many of a model's ``rows`` of logits stand for tokens; the rest is padding.

    What ends a text does, also where the tokenizer does not know it.
    """
    known = () if tokenizer is None else tokenizer.get_vocab().values()
    return min(rows, 1 + max((*known, *eos_ids))) if known else rows


def check_vocabularies(target: ModelConfig, drafter: ModelConfig) -> None:
    """Checks that every id that both tokenizers know stands for the same token.

    A model without a tokenizer matches any; ids that only one of the two knows do no harm.

    Raises:
        ModelError: They differ; names the first id that does.
    """
    sources = checkpoint_source(target, Role.TARGET), checkpoint_source(drafter, Role.DRAFTER)
    if None in sources or sources[0] == sources[1]:
        return
    theirs, ours = (_tokens(read_tokenizer(str(source))) for source in sources)
    for token_id in sorted(theirs.keys() & ours.keys()):
        if theirs[token_id] != ours[token_id]:
            raise ModelError(
                f"{drafter.model} cannot draft for {target.model}: token {token_id} is "
                f"{ours[token_id]!r} in one and {theirs[token_id]!r} in the other; choose a "
                "drafter with the target's tokenizer"
            )


def _tokens(tokenizer: Any | None) -> dict[int, str]:
    vocabulary = {} if tokenizer is None else tokenizer.get_vocab()
    return {token_id: token for token, token_id in vocabulary.items()}
