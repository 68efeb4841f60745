"""The bytes behind tokens, for each kind of decoder."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from dsi_ray.config import ModelConfig
from dsi_ray.models.text.token_bytes import TokenBytes
from dsi_ray.models.text.tokenizer import load_tokenizer

DEMO = load_tokenizer(ModelConfig(model="demo"))
PIECES = ["<s>", "▁", "▁Hello", "x", "<0xF0>", "<0x9F>", "<0x99>", "<0x82>"]


def fast(backend: Tokenizer) -> Any:
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>")


def sentencepiece(decoder: Any) -> TokenBytes:
    """A byte-fallback vocabulary, as Llama 2 has one."""
    vocab = {piece: index for index, piece in enumerate(PIECES)}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=[], byte_fallback=True))
    backend.decoder = decoder
    return TokenBytes(fast(backend))


FALLBACK = decoders.Sequence(
    [
        decoders.Replace("▁", " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
)


@given(st.text())
def test_bytes_of_all_tokens_are_the_texts(text: str) -> None:
    assert b"".join(map(DEMO.token_bytes, DEMO.encode(text))).decode() == text


def test_special_tokens_are_shown() -> None:
    assert DEMO.token_bytes(0) == b"<|endoftext|>"


def test_an_id_without_a_token_has_none() -> None:
    assert DEMO.token_bytes(10**6) == b""


def test_half_a_character_is_bytes() -> None:
    of = sentencepiece(FALLBACK)
    assert b"".join(of(token) for token in range(4, 8)).decode() == "🙂"


@pytest.mark.parametrize(
    ("piece", "expected"), [("▁", b" "), ("▁Hello", b" Hello"), ("x", b"x"), ("<s>", b"<s>")]
)
@pytest.mark.parametrize("decoder", [FALLBACK, decoders.Metaspace()])
def test_the_space_in_front_of_a_word_is_kept(decoder: Any, piece: str, expected: bytes) -> None:
    assert sentencepiece(decoder)(PIECES.index(piece)) == expected


def test_byte_level_tokens_that_were_added_as_plain_text() -> None:
    backend = Tokenizer(models.BPE(vocab={"<s>": 0, "a": 1}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_tokens(["日本 語"])
    assert TokenBytes(fast(backend))(2) == "日本 語".encode()


def test_a_tokenizer_without_a_decoder() -> None:
    backend = Tokenizer(models.WordLevel({"<s>": 0, "word": 1}, unk_token="<s>"))
    assert TokenBytes(fast(backend))(1) == b"word"
