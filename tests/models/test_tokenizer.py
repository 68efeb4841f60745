"""Tokenizers of every kind of target."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from dsi_ray.config import ModelConfig
from dsi_ray.models.base import ModelError
from dsi_ray.models.tokenizer import SimulatedTokenizer, load_tokenizer, split_digits


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
