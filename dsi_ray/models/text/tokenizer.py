"""Text to token ids and back, as the target wants it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dsi_ray.config import ModelConfig
from dsi_ray.core.messages import Role
from dsi_ray.models.base import ModelError
from dsi_ray.models.text.text_stream import TextStream
from dsi_ray.models.text.token_bytes import TokenBytes
from dsi_ray.params import SamplingParams

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class ChatError(ValueError):
    """A conversation cannot be put into the model's words."""


class Tokenizer(Protocol):
    """What the rest of the system needs of a tokenizer."""

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Returns the ids of a prompt, with the special tokens that the model expects."""

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Returns the text of ids; special tokens have none unless they are asked for."""

    def token_bytes(self, token: int) -> bytes:
        """Returns what a token adds to the text, special ones included; maybe half a character."""

    @property
    def max_token_bytes(self) -> int:
        """No token stands for more bytes of a text than this."""

    @property
    def special_ids(self) -> frozenset[int]:
        """The tokens that are not text."""

    @property
    def special_texts(self) -> Mapping[int, str]:
        """How those read where they are shown; constant."""

    def render_chat(self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> str:
        """Returns the conversation as the model's chat template writes it.

        Args:
            messages: Each with ``role`` and ``content``, and what else the template may read.
            options: The template's own, ``add_generation_prompt`` among them.

        Raises:
            ChatError: The model has no chat template, or its template refuses the messages.
        """


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A tokenizer's decoder that shows special tokens."""

    tokenizer: Tokenizer

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids."""
        return self.tokenizer.decode(ids, skip_special_tokens=False)


def text_after(tokenizer: Tokenizer, prompt: Sequence[int], params: SamplingParams) -> TextStream:
    """Returns the text that follows ``prompt``, as a request wants it."""
    if not params.skip_special_tokens:
        return TextStream(Verbatim(tokenizer), prompt, params.stop)
    hidden = tokenizer.special_texts if params.stop else {}
    return TextStream(tokenizer, prompt, params.stop, hidden)


def load_tokenizer(target: ModelConfig) -> Tokenizer:
    """Returns the tokenizer of a target.

    Raises:
        ModelError: There is none, or it cannot be read.
    """
    if target.simulation is not None:
        return SimulatedTokenizer(target.simulation.vocab_size)
    from dsi_ray.models.checkpoints.vocabulary import checkpoint_source

    source = checkpoint_source(target, Role.TARGET)
    assert source is not None, "a target has weights or is simulated"
    return PretrainedTokenizer(source)


class PretrainedTokenizer:
    """A tokenizer that transformers loads from a directory, a hub id or a GGUF file."""

    def __init__(self, source: str) -> None:
        self._tokenizer = _load(source)
        if source.endswith(".gguf") and _gguf_pre_tokenizer(source) == "smollm":
            split_digits(self._tokenizer)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Returns the ids of a prompt, with the special tokens that the model expects."""
        # Not verbose: the length is checked elsewhere, against the engine's own limit.
        ids: list[int] = self._tokenizer.encode(
            text, add_special_tokens=add_special_tokens, verbose=False
        )
        return ids

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Returns the text of ids; special tokens have none unless they are asked for."""
        text = self._tokenizer.decode(
            list(ids), skip_special_tokens=skip_special_tokens, clean_up_tokenization_spaces=False
        )
        assert isinstance(text, str)
        return text

    def token_bytes(self, token: int) -> bytes:
        """Returns what a token adds to the text, special ones included; maybe half a character."""
        return self._token_bytes(token)

    @cached_property
    def max_token_bytes(self) -> int:
        """No token stands for more bytes of a text than this."""
        # Of byte-level pieces it is the letters that count, which never are more than their bytes.
        return max(len(piece.encode()) for piece in self._tokenizer.get_vocab())

    @property
    def special_ids(self) -> frozenset[int]:
        """The tokens that are not text."""
        added = self._tokenizer.added_tokens_decoder.items()
        special = (token for token, content in added if content.special)
        return frozenset((*self._tokenizer.all_special_ids, *special))

    @cached_property
    def special_texts(self) -> Mapping[int, str]:
        """How those read where they are shown; constant."""
        texts = ((token, self.token_bytes(token).decode()) for token in self.special_ids)
        return {token: text for token, text in texts if text}

    def render_chat(self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> str:
        """Returns the conversation as the model's chat template writes it.

        Raises:
            ChatError: The model has no chat template, or its template refuses the messages.
        """
        if not self._tokenizer.chat_template:
            raise ChatError(
                "the model has no chat template: use /v1/completions, or add "
                "chat_template.jinja to the model directory"
            )
        try:
            text = self._tokenizer.apply_chat_template(
                [dict(message) for message in messages], tokenize=False, **options
            )
        # A template is code of the checkpoint, over input of the client: any kind may come.
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ChatError(f"the model's chat template refuses the messages: {reason}") from error
        assert isinstance(text, str)
        return text

    @cached_property
    def _token_bytes(self) -> TokenBytes:
        return TokenBytes(self._tokenizer)


class SimulatedTokenizer:
    """Stands in where there is no text: a token is written ``⟨id⟩``, other text is bytes."""

    _TOKEN = re.compile(r"⟨(\d{1,9})⟩|(.)", re.DOTALL)

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Returns the ids that ``decode`` wrote, and an id for each byte of any other text."""
        ids: list[int] = []
        for number, other in self._TOKEN.findall(text):
            ids += [int(number)] if number else other.encode(errors="replace")
        return [token % self._vocab_size for token in ids]

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Returns ``⟨id⟩`` for each id."""
        return "".join(f"⟨{token}⟩" for token in ids)

    def token_bytes(self, token: int) -> bytes:
        """Returns ``⟨id⟩``."""
        return f"⟨{token}⟩".encode()

    @property
    def max_token_bytes(self) -> int:
        """``⟨id⟩`` of nine digits."""
        return len("⟨123456789⟩".encode())

    @property
    def special_ids(self) -> frozenset[int]:
        """None."""
        return frozenset()

    @property
    def special_texts(self) -> Mapping[int, str]:
        """None."""
        return {}

    def render_chat(self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> str:
        """Returns the messages' texts, one after the other."""
        return "\n".join(str(message["content"]) for message in messages)


def _load(source: str) -> "PreTrainedTokenizerBase":
    # torch and transformers take seconds to import; a simulated target needs neither.
    from transformers import AutoTokenizer

    from dsi_ray.models.checkpoints.checkpoint import locate

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
