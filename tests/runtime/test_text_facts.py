"""What decides about texts besides the requests."""

import dataclasses
import math
import sys
from typing import Any

import pytest

from dsi_ray.config import ConfigError, EngineConfig
from dsi_ray.models.base import ModelInfo
from dsi_ray.runtime.client.text_facts import sampling_defaults, text_facts

TARGET = ModelInfo("m", 10, 20, (2, 7), 0, "float32", "cpu")
ADVISED = dataclasses.replace(TARGET, sampling_defaults=(("temperature", 0.6), ("top_k", 20)))
ON, OFF = EngineConfig(), EngineConfig(generation_config="none")


def test_defaults_are_the_checkpoints_unless_that_is_off() -> None:
    assert sampling_defaults(ON, ADVISED) == {"temperature": 0.6, "top_k": 20}
    assert sampling_defaults(OFF, ADVISED) == {}
    assert sampling_defaults(ON, TARGET) == {}


@pytest.mark.parametrize("value", [-1, 3, math.nan])
def test_advice_that_cannot_be_followed(value: float) -> None:
    wrong = dataclasses.replace(TARGET, sampling_defaults=(("temperature", value),))
    with pytest.raises(ConfigError, match="generation_config.json: temperature.*: none"):
        text_facts(ON, wrong)
    assert sampling_defaults(OFF, wrong) == {}


def test_one_line_says_it() -> None:
    assert text_facts(ON, TARGET) == (
        "Prompt and output have at most 20 tokens: the model takes no more. "
        "Texts end at token 2 or 7."
    )
    endless = dataclasses.replace(TARGET, eos_ids=(), max_context=sys.maxsize)
    assert text_facts(ON, endless) == "Texts have no end of sequence."
    assert "2 or 7; what a request leaves out is temperature 0.6, top_k 20" in text_facts(
        ON, ADVISED
    )
    assert text_facts(OFF, ADVISED) == text_facts(OFF, TARGET)


@pytest.mark.parametrize(
    ("settings", "info", "said"),
    [
        ({}, {"kv_capacity": 16}, "16 tokens: a server's KV cache holds no more, though the model"),
        ({"max_model_len": 18}, {"kv_capacity": 16}, "16 tokens: a server's KV cache"),
        ({"max_model_len": 12}, {"kv_capacity": 16}, "12 tokens: as max_model_len says"),
        ({}, {"context_reason": "for longrope"}, "20 tokens: for longrope. "),
    ],
)
def test_what_bounds_a_text_is_said(
    settings: dict[str, Any], info: dict[str, Any], said: str
) -> None:
    assert said in text_facts(EngineConfig(**settings), dataclasses.replace(TARGET, **info))
