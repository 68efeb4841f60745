"""What may be a prompt; no engine is needed to find out."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.config import ModelConfig
from dsi_ray.models.text.tokenizer import SimulatedTokenizer, load_tokenizer
from dsi_ray.runtime.client.prompts import Prompts
from dsi_ray.runtime.errors import RequestError

DEMO = load_tokenizer(ModelConfig(model="demo"))
PROMPTS = Prompts(DEMO, 64)


@pytest.mark.parametrize(
    "prompt",
    [None, 7, 1.5, b"bytes", bytearray(b"x"), ["a", "b"], [1.5], [None], [True], object(), [[1]]],
    ids=repr,
)
def test_what_is_no_prompt_is_refused(prompt: Any) -> None:
    with pytest.raises(RequestError, match="string or a list of token ids") as caught:
        PROMPTS.tokens(prompt)
    assert caught.value.param == "prompt"


@pytest.mark.parametrize("prompt", [[1, 2], (1, 2), range(1, 3), np.array([1, 2])], ids=repr)
def test_any_sequence_of_ids_is_a_prompt(prompt: Any) -> None:
    tokens = PROMPTS.tokens(prompt)
    assert tokens == [1, 2]
    assert all(type(token) is int for token in tokens)


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\udc00\ud800"], ids=ascii)
def test_half_of_a_surrogate_pair_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="Unicode"):
        PROMPTS.tokens(text)


class Unused(SimulatedTokenizer):
    """A tokenizer that must not be asked for anything that takes long."""

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        raise AssertionError("the text is too long to be cut into tokens")


@pytest.mark.parametrize("text", ["x" * 961, "é" * 481, "x" * 10**6], ids=len)
def test_a_text_that_cannot_fit_is_refused_before_the_work(text: str) -> None:
    with pytest.raises(RequestError) as caught:
        Prompts(Unused(100), 64).encode(text, param="messages")
    assert (caught.value.param, caught.value.code) == ("messages", "context_length_exceeded")


@given(st.text(max_size=200))
def test_no_token_stands_for_more_bytes_than_the_bound(text: str) -> None:
    for tokenizer in (DEMO, SimulatedTokenizer(100)):
        tokens = tokenizer.encode(text, add_special_tokens=False)
        assert len(text.encode()) <= len(tokens) * tokenizer.max_token_bytes


@pytest.mark.parametrize("text", ["⟨123456789⟩" * 64, "x" * 64])
def test_what_fits_is_never_refused(text: str) -> None:
    assert len(Prompts(SimulatedTokenizer(100), 64).encode(text)) == 64
