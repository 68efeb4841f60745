"""Log probabilities in OpenAI's two shapes."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.chat_completion import ChoiceLogprobs
from openai.types.completion_choice import Logprobs
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from dsi_ray.config import ModelConfig
from dsi_ray.core.messages import TokenLogprobs
from dsi_ray.models.text.text_stream import TextStream
from dsi_ray.models.text.token_bytes import TokenBytes
from dsi_ray.models.text.tokenizer import load_tokenizer
from dsi_ray.runtime.request import Chunk
from dsi_ray.serving.openai.logprobs import chat_logprobs, completion_logprobs

DEMO = load_tokenizer(ModelConfig(model="demo"))


def chunk(ids: list[int], *entries: TokenLogprobs, stream: TextStream | None = None) -> Chunk:
    given = entries or tuple(TokenLogprobs(-1.0, ((token, -1.0),)) for token in ids)
    piece = (stream or TextStream(DEMO)).push(ids)
    return Chunk(piece.text, tuple(ids), logprobs=given, offsets=piece.offsets)


@given(st.text(min_size=1))
def test_offsets_lead_to_the_tokens(text: str) -> None:
    told = completion_logprobs(DEMO, chunk(DEMO.encode(text)))
    assert told is not None
    ends = [*told.text_offset[1:], len(text)]
    for token, start, end in zip(told.tokens, told.text_offset, ends, strict=True):
        if not token.startswith("bytes:") and not text[start:end].startswith("bytes:"):
            assert text[start:end] == token


@given(st.text(min_size=1), st.data())
def test_chunks_make_no_difference_to_offsets(text: str, data: st.DataObject) -> None:
    ids = DEMO.encode(text)
    cut = data.draw(st.integers(0, len(ids)))
    whole = completion_logprobs(DEMO, chunk(ids))
    stream = TextStream(DEMO)
    parts = [
        completion_logprobs(DEMO, chunk(part, stream=stream)) for part in (ids[:cut], ids[cut:])
    ]
    assert whole is not None
    assert whole.text_offset == [o for part in parts if part for o in part.text_offset]


@given(st.text(min_size=1))
def test_chat_bytes_are_the_texts(text: str) -> None:
    told = chat_logprobs(DEMO, chunk(DEMO.encode(text)))
    assert told is not None
    assert b"".join(bytes(entry.bytes) for entry in told.content).decode() == text
    ChoiceLogprobs.model_validate(told.model_dump())


def test_half_a_character_has_a_name_of_its_own() -> None:
    ids = DEMO.encode("🙂")
    assert len(ids) > 1
    completion = completion_logprobs(DEMO, chunk(ids))
    chat = chat_logprobs(DEMO, chunk(ids))
    assert completion is not None and chat is not None
    assert completion.tokens[0] == "bytes:\\xf0"
    assert len(set(completion.tokens)) == len(ids)
    assert chat.content[0].token == "\\xf0"
    assert completion.text_offset == [0] * len(ids)


def test_the_chosen_token_is_among_the_top_ones_of_completions() -> None:
    (a, b, c) = (DEMO.encode(letter)[0] for letter in "abc")
    entry = TokenLogprobs(-3.0, ((a, -0.5), (b, -1.0)))
    told = completion_logprobs(DEMO, chunk([c], entry))
    assert told is not None
    assert told.top_logprobs == [{"a": -0.5, "b": -1.0, "c": -3.0}]
    Logprobs.model_validate(told.model_dump())
    chat = chat_logprobs(DEMO, chunk([c], entry))
    assert chat is not None
    assert [top.token for top in chat.content[0].top_logprobs] == ["a", "b"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_tokens_that_read_alike_the_likelier_survives(order: tuple[int, int]) -> None:
    backend = Tokenizer(models.BPE({"A": 0, "<0x41>": 1, "B": 2}, []))
    backend.decoder = decoders.ByteFallback()
    pretrained = PreTrainedTokenizerFast(tokenizer_object=backend)

    class Pieces:
        token_bytes = TokenBytes(pretrained)

    likely, unlikely = order
    entry = TokenLogprobs(-4.0, ((likely, -0.5), (2, -1.0), (unlikely, -4.0)))
    one = Chunk("A", (unlikely,), logprobs=(entry,), offsets=(0,))
    told = completion_logprobs(Pieces(), one)
    assert told is not None
    assert (told.tokens, told.token_logprobs) == (["A"], [-4.0])
    assert told.top_logprobs == [{"A": -0.5, "B": -1.0}]
    chosen_apart = TokenLogprobs(-4.0, ((likely, -0.5), (2, -1.0)))
    told = completion_logprobs(Pieces(), replace(one, logprobs=(chosen_apart,)))
    assert told is not None and told.top_logprobs == [{"A": -0.5, "B": -1.0}]
    chat = chat_logprobs(Pieces(), one)
    assert chat is not None
    tops = [(top.token, top.logprob, bytes(top.bytes)) for top in chat.content[0].top_logprobs]
    assert tops == [("A", -0.5, b"A"), ("B", -1.0, b"B"), ("A", -4.0, b"A")]


def test_no_infinity_in_json() -> None:
    token = DEMO.encode("a")[0]
    entry = TokenLogprobs(-math.inf, ((token, -math.inf),))
    told = completion_logprobs(DEMO, chunk([token], entry))
    assert told is not None
    assert (told.token_logprobs, told.top_logprobs) == ([-9999.0], [{"a": -9999.0}])


def test_none_asked_none_given() -> None:
    silent = Chunk("a", (5,))
    assert completion_logprobs(DEMO, silent) is None
    assert chat_logprobs(DEMO, silent) is None
