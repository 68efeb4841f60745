"""Tokenizers of every kind of target."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from dsi_ray.config import ModelConfig
from dsi_ray.models.base import ModelError
from dsi_ray.models.text.tokenizer import (
    ChatError,
    SimulatedTokenizer,
    Verbatim,
    load_tokenizer,
    split_digits,
    text_after,
)
from dsi_ray.params import SamplingParams


def test_demo_round_trip() -> None:
    tokenizer = load_tokenizer(ModelConfig(model="demo"))
    text = "def main():\n    print('héllo 🙂')  # twice  the  space\n"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_directory_with_special_tokens(tmp_path: Path) -> None:
    backend = Tokenizer(models.WordLevel({"<s>": 0, "a": 1, "b": 2, "?": 3}, unk_token="?"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>").save_pretrained(tmp_path)
    tokenizer = load_tokenizer(ModelConfig(model=str(tmp_path)))
    assert tokenizer.encode("a b") == [1, 2]
    assert tokenizer.decode([0, 1, 2]) == "a b"


@pytest.mark.parametrize("name", ["/no/such/directory", "no-such.gguf"])
def test_what_cannot_be_loaded_is_named(name: str) -> None:
    with pytest.raises(ModelError, match=name) as caught:
        load_tokenizer(ModelConfig(model=name))
    assert "\n" not in str(caught.value)


SIMULATED = ModelConfig.model_validate(ModelConfig.parse("simulated:tpot_ms=30,vocab_size=1000"))


@given(st.lists(st.integers(0, 999)))
def test_simulated_tokens_are_read_back(ids: list[int]) -> None:
    tokenizer = load_tokenizer(SIMULATED)
    assert tokenizer.encode(tokenizer.decode(ids)) == ids


@given(st.text(), st.integers(2, 300))
def test_simulated_takes_any_text(text: str, vocab_size: int) -> None:
    ids = SimulatedTokenizer(vocab_size).encode(text)
    assert bool(ids) == bool(text)
    assert all(0 <= token < vocab_size for token in ids)


def test_smollm_pre_tokenizer_splits_digits() -> None:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    split_digits(tokenizer)
    words = [word for word, _ in tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str("a 12")]
    assert words == ["a", "Ġ", "1", "2"]


HELLO = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "def f"}]
READY = {"add_generation_prompt": True}


def word_level(folder: Path, chat_template: str | None) -> ModelConfig:
    """A directory with a tokenizer of few words."""
    backend = Tokenizer(models.WordLevel({"<s>": 0, "a": 1, "?": 2}, unk_token="?"))
    PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", chat_template=chat_template
    ).save_pretrained(folder)
    return ModelConfig(model=str(folder))


def test_demo_has_a_chat_template() -> None:
    tokenizer = load_tokenizer(ModelConfig(model="demo"))
    text = tokenizer.render_chat(HELLO, READY)
    assert text == "<|user|>hello<|assistant|>def f<|endoftext|><|assistant|>"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert (ids[0], ids[-2:]) == (1, [0, 2])
    assert tokenizer.render_chat(HELLO[:1], {"add_generation_prompt": False}) == "<|user|>hello"


def test_options_reach_the_template(tmp_path: Path) -> None:
    template = "{% if think %}think{% endif %}{{ bos_token }}"
    tokenizer = load_tokenizer(word_level(tmp_path, template))
    assert tokenizer.render_chat(HELLO, {**READY, "think": True}) == "think<s>"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "has no chat template"),
        ("{{ raise_exception('roles must take turns') }}", "roles must take turns"),
        ("{{ messages[0].content.missing.more }}", "refuses"),
        ("{% if %}", "refuses"),
    ],
)
def test_what_a_template_refuses_is_said_in_one_line(
    tmp_path: Path, template: str | None, message: str
) -> None:
    tokenizer = load_tokenizer(word_level(tmp_path, template))
    with pytest.raises(ChatError, match=message) as caught:
        tokenizer.render_chat(HELLO, READY)
    assert "\n" not in str(caught.value)


def test_special_tokens_are_shown_where_asked() -> None:
    tokenizer = load_tokenizer(ModelConfig(model="demo"))
    ids = [0, *tokenizer.encode("def")]
    assert tokenizer.decode(ids) == "def"
    assert Verbatim(tokenizer).decode(ids) == "<|endoftext|>def"


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("stop", ["<|endoftext|>", "f<|endoftext|>", "<|endoftext|><|user|>"])
def test_a_stop_string_may_be_a_special_token(stop: str, skip: bool) -> None:
    tokenizer = load_tokenizer(ModelConfig(model="demo"))
    tokens = tokenizer.encode("def<|endoftext|><|user|> more", add_special_tokens=False)
    params = SamplingParams(stop=(stop,), skip_special_tokens=skip)
    piece = text_after(tokenizer, tokens[:1], params).push(tokens)
    verbatim = tokenizer.decode(tokens, skip_special_tokens=False)
    shown = verbatim[: verbatim.index(stop)]
    assert (piece.text, piece.stopped) == (shown, True)


def test_a_part_of_a_hidden_token_ends_nothing() -> None:
    tokenizer = load_tokenizer(ModelConfig(model="demo"))
    tokens = tokenizer.encode("def<|user|> more", add_special_tokens=False)
    piece = text_after(tokenizer, (), SamplingParams(stop=("|user",))).push(tokens)
    assert (piece.text, piece.stopped) == ("def more", False)


def test_simulated_chat() -> None:
    tokenizer = load_tokenizer(SIMULATED)
    assert tokenizer.render_chat(HELLO, READY) == "hello\ndef f"
    assert tokenizer.token_bytes(7) == "⟨7⟩".encode()
