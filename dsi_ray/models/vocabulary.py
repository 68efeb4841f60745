"""The ids that a tokenizer knows, and whether target and drafter mean the same by them."""

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


def token_ids(source: str) -> dict[str, int]:
    """Returns each token's id, added tokens included; empty if ``source`` has no tokenizer.

    Raises:
        ModelError: There is no such path.
    """
    file = Path(source).expanduser() / "tokenizer.json"
    if file.is_file():
        from tokenizers import Tokenizer

        return dict(Tokenizer.from_file(str(file)).get_vocab(with_added_tokens=True))
    if Path(source).expanduser().is_dir() and not _has_tokenizer(Path(source).expanduser()):
        # transformers would make one up from the configuration's defaults.
        return {}
    # Those who host or call groups have no other use for torch, which takes seconds to import.
    from transformers import AutoTokenizer

    from dsi_ray.models.checkpoint import locate

    place = locate(source)
    try:
        return dict(AutoTokenizer.from_pretrained(**place).get_vocab())
    # transformers raises many kinds for a checkpoint that holds no tokenizer.
    except Exception:
        return {}


def _has_tokenizer(folder: Path) -> bool:
    return any(folder.glob("tokenizer*")) or any(folder.glob("vocab.*"))


def vocab_size(source: str, rows: int) -> int:
    """Returns how many of a model's ``rows`` of logits stand for tokens; the rest is padding."""
    # Reading a GGUF file's tokenizer takes seconds, and such a file is not padded.
    if source.endswith(".gguf"):
        return rows
    return min(rows, 1 + max(token_ids(source).values(), default=rows))


def check_vocabularies(target: ModelConfig, drafter: ModelConfig) -> None:
    """Checks that every id that both tokenizers know stands for the same token.

    A model without a tokenizer matches any; ids that only one of the two knows do no harm.

    Raises:
        ModelError: They differ; names the first id that does.
    """
    sources = checkpoint_source(target, Role.TARGET), checkpoint_source(drafter, Role.DRAFTER)
    if None in sources or sources[0] == sources[1]:
        return
    theirs, ours = ({i: token for token, i in token_ids(str(s)).items()} for s in sources)
    for token_id in sorted(theirs.keys() & ours.keys()):
        if theirs[token_id] != ours[token_id]:
            raise ModelError(
                f"{drafter.model} cannot draft for {target.model}: token {token_id} is "
                f"{ours[token_id]!r} in one and {theirs[token_id]!r} in the other; choose a "
                "drafter with the target's tokenizer"
            )
