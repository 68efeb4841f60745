"""On real Ray and real models every algorithm gives the target's own tokens."""

from pathlib import Path
from typing import Literal

import pytest
from transformers import AutoModelForCausalLM

from dsi_ray.config import Algorithm
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.request import Decoding

from .conftest import EOS, PROMPT_COUNT, Pair, generated, random_prompts

MAX_TOKENS = 24
LOOKAHEADS: tuple[int | Literal["auto"], ...] = (1, 3, 8, "auto")

DSI = [Decoding(Algorithm.DSI, k, sp) for sp in (1, 3) for k in LOOKAHEADS]
DSI += [Decoding(Algorithm.DSI, k, 2) for k in (3, "auto")]
SI = [Decoding(Algorithm.SI, k) for k in LOOKAHEADS]


@pytest.mark.parametrize("decoding", [Decoding(Algorithm.NON_SI), *SI, *DSI], ids=str)
def test_equals_transformers_generate(pair: Pair, decoding: Decoding) -> None:
    for prompt in pair.prompts:
        completion = pair.engine.generate(prompt, SamplingParams(max_tokens=MAX_TOKENS), decoding)
        assert completion.tokens == pair.expected(prompt, MAX_TOKENS)


@pytest.mark.parametrize("sp_degree", [1, 3])
def test_max_tokens_of_one(pair: Pair, sp_degree: int) -> None:
    decoding = Decoding(Algorithm.DSI, "auto", sp_degree)
    for prompt in pair.prompts[:3]:
        completion = pair.engine.generate(prompt, SamplingParams(max_tokens=1), decoding)
        assert completion.tokens == pair.expected(prompt, 1)


def test_prompts_reach_the_end_of_the_text(model_folder: Path) -> None:
    """Guards the cases above: some of their texts end by EOS, inside a block of eight."""
    target = AutoModelForCausalLM.from_pretrained(model_folder / "target")
    ends = [
        tokens.index(EOS)
        for prompt in random_prompts(PROMPT_COUNT)
        if EOS in (tokens := generated(target, prompt, MAX_TOKENS))
    ]
    assert any(position % 8 not in (0, 7) for position in ends)
