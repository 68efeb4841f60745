"""Bugs that recur in servers that speculate, each by its number in the reference.

The server decodes speculatively; the engine beside it plainly. Others of the list are tested where
they belong: another vocabulary (10) in tests/models/test_vocabulary.py, sampling (11-17) in
tests/models/sampling, the commit (3, 4) in tests/core.
"""

from typing import Any

import httpx
import openai
import pytest

from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine

PROMPT = "import os\n\n\ndef main(argv):\n"
LONG = 48


def plain(engine: Engine, **params: Any) -> Any:
    return engine.generate(PROMPT, SamplingParams(max_tokens=LONG, ignore_eos=True, **params))


def ask(http: httpx.Client, **fields: Any) -> dict[str, Any]:
    body = {"model": "demo", "prompt": PROMPT, "max_tokens": LONG, "temperature": 0}
    answer = http.post("/v1/completions", json={**body, "ignore_eos": True, **fields})
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


def test_1_a_stop_string_inside_an_accepted_block(http: httpx.Client, engine: Engine) -> None:
    whole = plain(engine).text
    for place in range(0, len(whole) - 2, len(whole) // 7):
        stop = whole[place : place + 2]
        answer = ask(http, stop=[stop])
        assert answer["choices"][0]["text"] == whole[: whole.index(stop)]
        assert answer["choices"][0]["finish_reason"] == "stop"


def test_2_the_length_does_not_hide_an_earlier_stop(http: httpx.Client, engine: Engine) -> None:
    """Both in the last block: the stop comes first, so it is the reason."""
    tokens = plain(engine).tokens
    for most in (2, 5, 9):
        last = tokens[most - 1]
        answer = ask(http, max_tokens=most, stop_token_ids=[last])
        assert answer["choices"][0]["finish_reason"] == "stop"
        assert answer["usage"]["completion_tokens"] == tokens.index(last) + 1


@pytest.mark.parametrize("most", range(1, 12))
def test_5_max_tokens_is_never_exceeded(http: httpx.Client, engine: Engine, most: int) -> None:
    answer = ask(http, max_tokens=most, return_token_ids=True)
    assert answer["choices"][0]["token_ids"] == list(plain(engine).tokens[:most])
    assert answer["usage"]["completion_tokens"] == most


def test_6_usage_ends_where_the_text_ends(http: httpx.Client, engine: Engine) -> None:
    tokens = plain(engine).tokens
    answer = ask(http, stop_token_ids=[tokens[7]], return_token_ids=True)
    count = tokens.index(tokens[7]) + 1
    assert answer["usage"]["completion_tokens"] == len(answer["choices"][0]["token_ids"]) == count
    told = answer["metrics"]["speculative_decoding"]
    assert told["num_accepted_draft_tokens"] <= count


def test_7_logprobs_are_the_plain_targets(http: httpx.Client, engine: Engine) -> None:
    expected = plain(engine, logprobs=3)
    told = ask(http, logprobs=3)["choices"][0]["logprobs"]
    assert len(told["tokens"]) == LONG
    assert told["token_logprobs"] == pytest.approx(
        [entry.logprob for entry in expected.logprobs], abs=1e-3
    )
    assert "".join(told["tokens"]) == expected.text


def test_8_logprobs_of_the_prompt_are_refused_not_wrong(http: httpx.Client) -> None:
    for fields in ({"echo": True, "logprobs": 1}, {"prompt_logprobs": 1}):
        answer = http.post("/v1/completions", json={"model": "demo", "prompt": "x", **fields})
        assert answer.json()["error"]["code"] == "unsupported_parameter"


def test_14_a_seed_gives_the_same_text_again(http: httpx.Client, engine: Engine) -> None:
    first = ask(http, temperature=1, seed=5)
    assert first["choices"][0]["text"] == plain(engine, temperature=1, seed=5).text
    drawn = ask(http, temperature=1)["choices"][0]
    again = ask(http, temperature=1, seed=drawn["seed"])["choices"][0]
    assert again == drawn


def test_27_emoji_of_several_tokens_stay_whole(client: openai.OpenAI, engine: Engine) -> None:
    """Every token is a byte of an emoji: chunks hold whole characters or what can be none."""
    face = engine.tokenizer.encode("🙂")
    bias = {str(token): 100 for token in face}
    arguments: dict[str, Any] = {
        "model": "demo",
        "prompt": PROMPT,
        "max_tokens": LONG,
        "seed": 3,
        "temperature": 2,
        "logit_bias": bias,
    }
    chunks = client.completions.create(**arguments, stream=True)
    streamed = "".join(chunk.choices[0].text for chunk in chunks)
    assert streamed == client.completions.create(**arguments).choices[0].text
