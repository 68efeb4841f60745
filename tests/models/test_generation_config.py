"""Where texts end, and how they are sampled: what each of a checkpoint's files says."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiny import VOCAB, tiny_model
from tokenizers import Tokenizer, models

from dsi_ray.config import ModelConfig
from dsi_ray.core.messages import Role
from dsi_ray.models.base import Extension, ModelError, Sampling, extend_one
from dsi_ray.models.checkpoints.generation_config import find_eos_ids, find_sampling_defaults
from dsi_ray.models.checkpoints.vocabulary import read_tokenizer
from dsi_ray.models.load import load_model
from dsi_ray.params import SamplingParams

WORDS = {f"w{index}": index for index in range(8)}
END = len(WORDS)
"""The id that a token gets which only ``tokenizer_config.json`` knows."""

ADVICE = {"temperature": 0.6, "top_p": 0.9}


def checkpoint(
    folder: Path,
    config: Any = None,
    generation: dict[str, Any] | None = None,
    eos_token: str | None = None,
) -> str:
    """Writes a checkpoint whose files each say something; None for a file that says nothing."""
    tiny_model("llama").save_pretrained(folder)
    written = json.loads((folder / "config.json").read_text())
    written.pop("eos_token_id")
    if config is not None:
        written["eos_token_id"] = config
    (folder / "config.json").write_text(json.dumps(written))
    (folder / "generation_config.json").unlink()
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    if eos_token is not None:
        Tokenizer(models.WordLevel(WORDS, unk_token="w0")).save(str(folder / "tokenizer.json"))
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": eos_token}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return str(folder)


@pytest.mark.parametrize(
    ("files", "ends"),
    [
        ({"config": 3}, {3: ["config.json"]}),
        ({"config": [3, 4]}, {3: ["config.json"], 4: ["config.json"]}),
        ({"generation": {"eos_token_id": [5, 3]}, "config": 3}, {5: 1, 3: 2}),
        ({"generation": {"temperature": 0.5}, "config": 3}, {3: 1}),
        ({"eos_token": "w6"}, {6: ["tokenizer"]}),
        ({"eos_token": "<end>"}, {END: ["tokenizer"]}),
        ({"generation": {"eos_token_id": 1}, "config": 2, "eos_token": "w2"}, {1: 1, 2: 2}),
        # The architecture's own default counts only where nobody says anything.
        ({}, {2: ["architecture"]}),
    ],
)
def test_texts_end_where_any_file_says(
    tmp_path: Path, files: dict[str, Any], ends: dict[int, Any]
) -> None:
    source = checkpoint(tmp_path, **files)
    found = find_eos_ids(source, read_tokenizer(source))
    assert list(found) == list(ends)
    for told, expected in zip(found.values(), ends.values(), strict=True):
        assert expected in (told, len(told))
    model = load_model(ModelConfig(model=source), Role.TARGET)
    assert model.info.eos_ids == tuple(ends)


def test_an_end_that_no_row_of_logits_stands_for_is_left_out(tmp_path: Path) -> None:
    source = checkpoint(tmp_path, config=[3, VOCAB])
    assert load_model(ModelConfig(model=source), Role.TARGET).info.eos_ids == (3,)


@pytest.mark.parametrize(
    "files",
    [
        {"eos_token": "<end>"},
        {"eos_token": "w1", "config": END},
        {"eos_token": "w1", "generation": {"eos_token_id": END}},
    ],
)
def test_an_end_beyond_the_tokenizers_file_can_be_chosen(
    tmp_path: Path, files: dict[str, Any]
) -> None:
    source = checkpoint(tmp_path, **files)
    model = load_model(ModelConfig(model=source), Role.TARGET)
    assert model.info.vocab_size == END + 1
    bias = SamplingParams(logit_bias={END: 100})
    assert list(extend_one(model, Extension("a", (1,), 1, Sampling(bias, 1))).tokens) == [END]


@pytest.mark.parametrize(
    ("generation", "defaults"),
    [
        (None, {}),
        ({"eos_token_id": 1}, {}),
        (
            {"temperature": 0.6, "top_p": 0.9, "do_sample": False},
            {"temperature": 0.6, "top_p": 0.9},
        ),
        ({"top_k": 20, "repetition_penalty": 1.05}, {"top_k": 20, "repetition_penalty": 1.05}),
        ({"min_p": 0.1, "num_beams": 1, "max_new_tokens": 5}, {"min_p": 0.1}),
    ],
)
def test_recommended_sampling(
    tmp_path: Path, generation: dict[str, Any] | None, defaults: dict[str, float]
) -> None:
    source = checkpoint(tmp_path, generation=generation)
    assert dict(find_sampling_defaults(source)) == defaults
    for role, expected in ((Role.TARGET, defaults), (Role.DRAFTER, {})):
        info = load_model(ModelConfig(model=source), role).info
        assert dict(info.sampling_defaults) == expected


def test_a_file_that_cannot_be_read_is_not_taken_for_one_that_says_nothing(tmp_path: Path) -> None:
    source = checkpoint(tmp_path, generation={})
    (tmp_path / "generation_config.json").write_text("{")
    for read in (find_sampling_defaults, lambda source: find_eos_ids(source, None)):
        with pytest.raises(ModelError, match=r"generation_config.json cannot be read") as caught:
            read(source)
        assert "\n" not in str(caught.value)
