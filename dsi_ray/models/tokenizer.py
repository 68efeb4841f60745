"""Text to token ids and back, as the target wants it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dsi_ray.config import ModelConfig
from dsi_ray.models.base import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Tokenizer(Protocol):
    """What the rest of the system needs of a tokenizer."""

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a prompt, with the special tokens that the model expects."""

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids; special tokens have none."""


def load_tokenizer(model: ModelConfig) -> Tokenizer:
    """Returns the tokenizer of a model that can be a target.

    Raises:
        ModelError: There is none, or it cannot be read.
    """
    if model.simulation is not None:
        return SimulatedTokenizer(model.simulation.vocab_size)
    source = model.model
    if source == "demo":
        from dsi_ray.demo import TARGET_DIR

        source = str(TARGET_DIR)
    return PretrainedTokenizer(source)


class PretrainedTokenizer:
    """A tokenizer that transformers loads from a directory, a hub id or a GGUF file."""

    def __init__(self, source: str) -> None:
        self._tokenizer = _load_gguf(Path(source)) if _is_gguf(source) else _load(source)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a prompt, with the special tokens that the model expects."""
        ids: list[int] = self._tokenizer.encode(text)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids; special tokens have none."""
        text = self._tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        assert isinstance(text, str)
        return text


class SimulatedTokenizer:
    """Stands in where there is no text: a token is written ``⟨id⟩``, other text is bytes."""

    _TOKEN = re.compile(r"⟨(\d{1,9})⟩|(.)", re.DOTALL)

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size

    def encode(self, text: str) -> list[int]:
        """Returns the ids that ``decode`` wrote, and an id for each byte of any other text."""
        ids: list[int] = []
        for number, other in self._TOKEN.findall(text):
            ids += [int(number)] if number else other.encode(errors="replace")
        return [token % self._vocab_size for token in ids]

    def decode(self, ids: Sequence[int]) -> str:
        """Returns ``⟨id⟩`` for each id."""
        return "".join(f"⟨{token}⟩" for token in ids)


def _is_gguf(source: str) -> bool:
    return source.endswith(".gguf")


def _load(source: str, **options: Any) -> "PreTrainedTokenizerBase":
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(source, **options)
    # transformers raises many kinds for a directory that holds something else.
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelError(
            f"cannot load the tokenizer of {source!r}: {reason.rstrip('.')}; "
            "give a directory or hub id that holds one"
        ) from error


def _load_gguf(file: Path) -> "PreTrainedTokenizerBase":
    tokenizer = _load(str(file.parent), gguf_file=file.name)
    if _gguf_pre_tokenizer(file) == "smollm":
        _split_digits(tokenizer)
    return tokenizer


def _gguf_pre_tokenizer(file: Path) -> str | None:
    from gguf import GGUFReader

    field = GGUFReader(file).get_field("tokenizer.ggml.pre")
    return None if field is None else str(field.contents())


def _split_digits(tokenizer: Any) -> None:
    # transformers ignores the GGUF file's pre-tokenizer "smollm" and splits numbers otherwise
    # than the model was trained, which changes the ids of some prompts.
    from tokenizers import pre_tokenizers

    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
