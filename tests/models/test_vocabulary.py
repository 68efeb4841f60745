"""Which tokenizers match, and how many ids are real."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from dsi_ray import demo
from dsi_ray.config import ModelConfig, Simulation
from dsi_ray.core.messages import Role
from dsi_ray.models.base import ModelError
from dsi_ray.models.checkpoints.vocabulary import (
    check_vocabularies,
    checkpoint_source,
    read_tokenizer,
    vocab_size,
)

WORDS = {"a": 0, "b": 1, "c": 2, "d": 3}
LOOKUP = ModelConfig(model="lookup")
SIMULATED = ModelConfig(model="simulated", simulation=Simulation(tpot_ms=1))


def token_ids(source: str) -> dict[str, int]:
    """Each token's id; empty without a tokenizer."""
    tokenizer = read_tokenizer(source)
    return {} if tokenizer is None else tokenizer.get_vocab()


def save(folder: Path, words: dict[str, int], special: tuple[str, ...] = ()) -> ModelConfig:
    """Writes a tokenizer and returns the configuration of a model in the same directory."""
    folder.mkdir()
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="a"))
    tokenizer.add_special_tokens(list(special))
    tokenizer.save(str(folder / "tokenizer.json"))
    return ModelConfig(model=str(folder))


def test_token_ids_include_added_tokens(tmp_path: Path) -> None:
    model = save(tmp_path / "m", WORDS, ("<end>",))
    assert token_ids(model.model) == {**WORDS, "<end>": 4}


def test_a_tokenizer_without_a_fast_file_is_left_to_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(WORDS)))
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", lambda *_, **__: tokenizer)
    (tmp_path / "tokenizer.model").touch()
    assert token_ids(str(tmp_path)) == WORDS


def test_without_a_tokenizer_every_row_is_real(tmp_path: Path) -> None:
    assert token_ids(str(tmp_path)) == {}
    assert vocab_size(read_tokenizer(str(tmp_path)), 64) == 64
    assert vocab_size(None, 64, eos_ids=(5,)) == 64


def test_rows_beyond_the_tokenizer_are_padding(tmp_path: Path) -> None:
    model = save(tmp_path / "m", WORDS, ("<end>",))
    tokenizer = read_tokenizer(model.model)
    assert vocab_size(tokenizer, 64) == 5
    assert vocab_size(tokenizer, 3) == 3
    assert vocab_size(tokenizer, 64, eos_ids=(2,)) == 5
    assert vocab_size(tokenizer, 64, eos_ids=(2, 7)) == 8


def test_tokens_that_only_the_tokenizers_configuration_knows_count(tmp_path: Path) -> None:
    target, drafter = save(tmp_path / "t", WORDS), save(tmp_path / "d", WORDS)
    for model, end in ((target, "<end>"), (drafter, "<stop>")):
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": end}
        (Path(model.model) / "tokenizer_config.json").write_text(json.dumps(settings))
    assert token_ids(target.model) == {**WORDS, "<end>": 4}
    with pytest.raises(ModelError, match="token 4 is '<stop>' in one and '<end>' in the other"):
        check_vocabularies(target, drafter)


@pytest.mark.parametrize("special", [(), ("<pad>",), ("<pad>", "<other>")])
def test_ids_that_only_one_of_them_knows_do_no_harm(tmp_path: Path, special: tuple) -> None:
    target = save(tmp_path / "t", WORDS, ("<pad>",))
    check_vocabularies(target, save(tmp_path / "d", WORDS, special))


def test_bug_10_another_vocabulary_is_refused_by_its_first_difference(
    tmp_path: Path,
) -> None:
    target = save(tmp_path / "t", WORDS)
    drafter = save(tmp_path / "d", {"a": 0, "b": 1, "d": 2, "c": 3})
    with pytest.raises(ModelError, match="token 2 is 'd' in one and 'c' in the other") as caught:
        check_vocabularies(target, drafter)
    assert "\n" not in str(caught.value)


def test_models_without_a_tokenizer_match_any(tmp_path: Path) -> None:
    target = save(tmp_path / "t", WORDS)
    check_vocabularies(target, LOOKUP)
    check_vocabularies(target, SIMULATED)
    check_vocabularies(SIMULATED, target)
    (tmp_path / "bare").mkdir()
    check_vocabularies(target, ModelConfig(model=str(tmp_path / "bare")))


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such model directory"):
        check_vocabularies(save(tmp_path / "t", WORDS), ModelConfig(model="/no/such/model"))


def test_where_a_checkpoint_is() -> None:
    assert checkpoint_source(LOOKUP, Role.DRAFTER) is None
    assert checkpoint_source(SIMULATED, Role.TARGET) is None
    assert checkpoint_source(ModelConfig(model="x/y"), Role.TARGET) == "x/y"
    demo_model = ModelConfig(model="demo")
    assert checkpoint_source(demo_model, Role.TARGET) == str(demo.TARGET_DIR)
    assert checkpoint_source(demo_model, Role.DRAFTER) == str(demo.DRAFTER_DIR)
