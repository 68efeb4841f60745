"""Text to token ids and back, as the target wants it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dsi_ray.config import ModelConfig
from dsi_ray.core.messages import Role
from dsi_ray.models.base import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Tokenizer(Protocol):
    """What the rest of the system needs of a tokenizer."""

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a prompt, with the special tokens that the model expects."""

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids; special tokens have none."""


def load_tokenizer(target: ModelConfig) -> Tokenizer:
    """Returns the tokenizer of a target.

    Raises:
        ModelError: There is none, or it cannot be read.
    """
    if target.simulation is not None:
        return SimulatedTokenizer(target.simulation.vocab_size)
    from dsi_ray.models.vocabulary import checkpoint_source

    source = checkpoint_source(target, Role.TARGET)
    assert source is not None, "a target has weights or is simulated"
    return PretrainedTokenizer(source)


class PretrainedTokenizer:
    """A tokenizer that transformers loads from a directory, a hub id or a GGUF file."""

    def __init__(self, source: str) -> None:
        self._tokenizer = _load(source)
        if source.endswith(".gguf") and _gguf_pre_tokenizer(source) == "smollm":
            split_digits(self._tokenizer)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a prompt, with the special tokens that the model expects."""
        # Not verbose: the length is checked elsewhere, against the engine's own limit.
        ids: list[int] = self._tokenizer.encode(text, verbose=False)
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


def _load(source: str) -> "PreTrainedTokenizerBase":
    # torch and transformers take seconds to import; a simulated target needs neither.
    from transformers import AutoTokenizer

    from dsi_ray.models.checkpoint import locate

    place = locate(source)
    try:
        return AutoTokenizer.from_pretrained(**place)
    # transformers raises many kinds for a checkpoint that holds no tokenizer.
    except Exception as error:
        lines = str(error).strip().splitlines()
        reason = lines[0].rstrip(".") if lines else type(error).__name__
        raise ModelError(
            f"{source}: its tokenizer cannot be loaded ({reason}); add one to the model directory"
        ) from error


def _gguf_pre_tokenizer(source: str) -> str | None:
    from gguf import GGUFReader

    field = GGUFReader(Path(source).expanduser()).get_field("tokenizer.ggml.pre")
    return None if field is None else str(field.contents())


def split_digits(tokenizer: Any) -> None:
    """Makes each digit a token of its own."""
    # transformers ignores the GGUF file's pre-tokenizer "smollm" and splits numbers otherwise
    # than the model was trained, which changes the ids of some prompts.
    from tokenizers import pre_tokenizers

    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
