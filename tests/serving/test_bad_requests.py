"""Wrong input gets OpenAI's error envelope with the field's name, and does no harm."""

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest


@pytest.fixture(autouse=True)
def _server_still_answers(http: httpx.Client) -> Iterator[None]:
    yield
    body = {"model": "demo", "prompt": "def f(", "max_tokens": 1}
    assert http.post("/v1/completions", json=body).status_code == 200


def error_of(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status
    (error,) = answer.json().values()
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"] and "\n" not in error["message"]
    assert error["type"] == ("invalid_request_error" if status < 500 else "server_error")
    return error


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"max_tokens": 0}, "max_tokens", None),
        ({"max_tokens": -5}, "max_tokens", None),
        ({"max_tokens": "many"}, "max_tokens", None),
        ({"prompt": 5}, "prompt", None),
        ({"prompt": ""}, "prompt", None),
        ({"prompt": [10**6]}, "prompt", None),
        ({"prompt": "word " * 5000}, "prompt", "context_length_exceeded"),
        ({"stop": ["a"] * 5}, "stop", None),
        ({"temperature": 2.5}, "temperature", None),
        ({"n": 17}, "n", None),
        ({"best_of": 2}, "best_of", "unsupported_parameter"),
        ({"suffix": "end"}, "suffix", "unsupported_parameter"),
        ({"logit_bias": {"99999": 1}}, "logit_bias", None),
        ({"min_tokens": 20}, "min_tokens", None),
        ({"echo": True, "logprobs": 1}, "logprobs", "unsupported_parameter"),
        ({"no_such": 1}, "no_such", "unknown_parameter"),
        ({"stream_options": {}}, "stream_options", None),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_wrong_fields(
    http: httpx.Client, fields: dict[str, Any], param: str, code: str | None, stream: bool
) -> None:
    if stream and param == "stream_options":
        pytest.skip("fine in a stream")
    body = {"model": "demo", "prompt": "x", "stream": stream, **fields}
    error = error_of(http.post("/v1/completions", json=body), 400)
    assert (error["param"], error["code"]) == (param, code)


@pytest.mark.parametrize("body", ['{"model": "demo", "prompt": ', "", "[]", '"text"', "\xff\xfe"])
def test_broken_json(http: httpx.Client, body: str) -> None:
    headers = {"content-type": "application/json"}
    answer = http.post("/v1/completions", content=body.encode("latin-1"), headers=headers)
    assert error_of(answer, 400)["param"] is None


def test_one_wrong_prompt_of_two_fails_before_the_stream(http: httpx.Client) -> None:
    body = {"model": "demo", "prompt": ["x", "word " * 5000], "stream": True}
    assert error_of(http.post("/v1/completions", json=body), 400)["param"] == "prompt"


def test_unknown_model(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="gpt-9", prompt="x")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("org/gpt-9")


def test_client_reads_the_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="demo", prompt="x", max_tokens=0)
    assert caught.value.param == "max_tokens"


def test_unknown_path_and_method(http: httpx.Client) -> None:
    assert "/v1/nothing" in error_of(http.get("/v1/nothing"), 404)["message"]
    answer = http.get("/v1/completions")
    error_of(answer, 405)
    assert answer.headers["allow"] == "POST"
