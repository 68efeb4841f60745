"""Structured output through HTTP, by the official client where it has a name for it."""

import json
import re
from typing import Any

import httpx
import jsonschema
import openai
import pytest

from dsi_ray.params import Guide, SamplingParams
from dsi_ray.runtime.client.engine import Engine
from dsi_ray.runtime.errors import RequestError

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
FORMAT: Any = {
    "type": "json_schema",
    "json_schema": {"name": "person", "schema": SCHEMA, "strict": True},
}
MESSAGES: Any = [{"role": "user", "content": "def load("}]
KINDS = {
    "/v1/completions": {"prompt": "def load("},
    "/v1/chat/completions": {"messages": MESSAGES},
}


def post(http: httpx.Client, path: str, **fields: Any) -> httpx.Response:
    """Asks for a short text."""
    body = {"model": "demo", "max_tokens": 64, "seed": 3, **KINDS[path], **fields}
    return http.post(path, json=body)


def test_json_schema_with_the_official_client(client: openai.OpenAI) -> None:
    for seed in range(5):
        answer = client.chat.completions.create(
            model="demo", messages=MESSAGES, response_format=FORMAT, seed=seed, max_tokens=64
        )
        assert answer.choices[0].finish_reason == "stop"
        jsonschema.validate(json.loads(answer.choices[0].message.content or ""), SCHEMA)


def test_streamed_and_for_several_choices(client: openai.OpenAI) -> None:
    texts = ["", ""]
    for chunk in client.chat.completions.create(
        model="demo", messages=MESSAGES, response_format=FORMAT, max_tokens=64, n=2, stream=True
    ):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    for text in texts:
        jsonschema.validate(json.loads(text), SCHEMA)


def test_json_object(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="demo",
        messages=MESSAGES,
        response_format={"type": "json_object"},
        temperature=0.3,
        seed=1,
        max_tokens=300,
    )
    choice = answer.choices[0]
    # Nothing bounds such a text.
    whole = choice.finish_reason == "stop"
    assert not whole or isinstance(json.loads(choice.message.content or ""), dict)


@pytest.mark.parametrize("path", KINDS)
def test_regex_and_choice(http: httpx.Client, path: str) -> None:
    for fields, regex in (
        ({"guided_regex": r"\d{4}-\d{2}"}, r"\d{4}-\d{2}"),
        ({"guided_choice": ["left", "right"]}, "left|right"),
        ({"guided_json": {"enum": [1, 2]}}, "1|2"),
    ):
        choice = post(http, path, **fields).json()["choices"][0]
        text = choice["text"] if "text" in choice else choice["message"]["content"]
        assert re.fullmatch(regex, text)
        assert choice["finish_reason"] == "stop"


def test_the_text_is_that_of_the_target_alone(http: httpx.Client, engine: Engine) -> None:
    guide = Guide("json_schema", json.dumps(SCHEMA))
    params = SamplingParams(max_tokens=64, seed=3, temperature=1, guide=guide)
    answer = post(http, "/v1/completions", guided_json=SCHEMA).json()
    assert answer["choices"][0]["text"] == engine.generate("def load(", params).text


@pytest.mark.parametrize("path", KINDS)
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"guided_regex": "("}, "guided_regex"),
        ({"guided_json": {"type": "text"}}, "guided_json"),
        ({"guided_json": "{"}, "guided_json"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {"not": {}}},
                }
            },
            "response_format",
        ),
        ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice"),
        ({"guided_regex": "a", "min_tokens": 3}, "min_tokens"),
        ({"guided_regex": "a", "ignore_eos": True}, "ignore_eos"),
    ],
)
def test_what_cannot_be_done_is_400(
    http: httpx.Client, path: str, fields: dict[str, Any], param: str
) -> None:
    answer = post(http, path, **fields)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param), answer.text
    assert "\n" not in error["message"]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "fields",
    [
        {"guided_regex": "(([a-c]{1,500}){1,500}){1,500}"},
        {
            "guided_json": {
                "type": "object",
                "properties": {f"p{i}": {"type": "string"} for i in range(500)},
            }
        },
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_guide_that_takes_too_much_is_400(
    http: httpx.Client, fields: dict[str, Any], streamed: bool
) -> None:
    answer = post(http, "/v1/completions", stream=streamed, **fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] in fields


def test_a_guide_that_takes_too_much_in_the_end_fails_alone(http: httpx.Client) -> None:
    greedy = {"guided_regex": "a{500}(([a-c]{1,500}){1,500}){1,500}", "max_tokens": 900}
    whole = post(http, "/v1/completions", **greedy)
    assert (whole.status_code, whole.json()["error"]["param"]) == (400, "guided_regex")
    streamed = post(http, "/v1/completions", stream=True, **greedy)
    assert streamed.status_code == 200
    *_, last, end = streamed.text.split("\n\n")
    error = json.loads(last.removeprefix("data: "))["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", "guided_regex")
    assert "repetitions" in error["message"]
    assert end == ""
    assert post(http, "/v1/completions", guided_regex="ab").json()["choices"][0]["text"] == "ab"


def test_a_simulated_target_has_no_text_to_guide(simulated: Engine) -> None:
    with pytest.raises(RequestError) as caught:
        simulated.generate([1], SamplingParams(max_tokens=2, guide=Guide("regex", "a")))
    assert caught.value.param == "guide"
