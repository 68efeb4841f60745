"""What clients complained of with other servers, each complaint by name.

The numbers are those of the list of recurring complaints in the reference of the OpenAI API.
"""

import asyncio
import json
from typing import Any

import httpx
import openai
import pytest

from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine

PROMPT = "def main(argv):\n    "
CHAT = [{"role": "user", "content": "print the numbers from 1 to 10"}]
GREEDY = {"temperature": 0, "max_tokens": 24, "extra_body": {"ignore_eos": True}}
KINDS = ["completions", "chat"]


def create(client: Any, kind: str, **arguments: Any) -> Any:
    """Calls one of the two endpoints of the official client, sync or async."""
    arguments = {"model": "demo", **GREEDY, **arguments}
    if kind == "chat":
        return client.chat.completions.create(messages=CHAT, **arguments)
    return client.completions.create(prompt=PROMPT, **arguments)


def text_of(choice: Any) -> str:
    """The text of a choice or of a chunk of one, of either endpoint."""
    if hasattr(choice, "text"):
        return str(choice.text)
    message = getattr(choice, "message", None) or choice.delta
    return message.content or ""


def post(http: httpx.Client, kind: str, **fields: Any) -> httpx.Response:
    """Calls one of the two endpoints with a raw body."""
    shown = {"messages": CHAT} if kind == "chat" else {"prompt": PROMPT}
    path = "/v1/chat/completions" if kind == "chat" else "/v1/completions"
    body = {"model": "demo", **shown, "max_tokens": 8, "temperature": 0, **fields}
    return http.post(path, json=body)


def events_of(answer: httpx.Response) -> list[dict[str, Any]]:
    """The JSON of all events but the last, which is ``[DONE]``."""
    assert answer.status_code == 200
    *events, last, end = answer.text.split("\n\n")
    assert (last, end) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


@pytest.mark.parametrize("kind", KINDS)
def test_whole_and_streamed_sync_and_async_are_the_same_text(
    client: openai.OpenAI, url: str, kind: str
) -> None:
    async def ask(stream: bool) -> str:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as other:
            answer = await create(other, kind, stream=stream)
            if not stream:
                return text_of(answer.choices[0])
            return "".join([text_of(chunk.choices[0]) async for chunk in answer])

    whole = text_of(create(client, kind).choices[0])
    streamed = "".join(text_of(c.choices[0]) for c in create(client, kind, stream=True))
    assert whole == streamed == asyncio.run(ask(False)) == asyncio.run(ask(True))
    assert whole


@pytest.mark.parametrize("kind", KINDS)
def test_1_finish_reason_is_null_until_the_end(http: httpx.Client, kind: str) -> None:
    reasons = [e["choices"][0]["finish_reason"] for e in events_of(post(http, kind, stream=True))]
    assert set(reasons[:-1]) == {None}
    assert reasons[-1] in ("length", "stop")


def test_2_no_role_or_content_is_null_in_deltas(http: httpx.Client) -> None:
    deltas = [e["choices"][0]["delta"] for e in events_of(post(http, "chat", stream=True))]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert all(delta.keys() == {"content"} for delta in deltas[1:-1])
    assert all(isinstance(delta["content"], str) for delta in deltas[:-1])


def test_3_the_final_chunk_has_an_empty_delta_and_no_content(http: httpx.Client) -> None:
    assert events_of(post(http, "chat", stream=True))[-1]["choices"][0]["delta"] == {}
    assert events_of(post(http, "completions", stream=True))[-1]["choices"][0]["text"] == ""


@pytest.mark.parametrize("kind", KINDS)
def test_4_usage_of_a_stream_is_the_whole_answers(http: httpx.Client, kind: str) -> None:
    expected = post(http, kind).json()["usage"]
    options = {"include_usage": True, "continuous_usage_stats": True}
    *events, last = events_of(post(http, kind, stream=True, stream_options=options))
    assert (last["choices"], last["usage"]) == ([], expected)
    counts = [event["usage"]["completion_tokens"] for event in events]
    assert counts == sorted(counts)
    assert 0 < counts[0] and counts[-1] == expected["completion_tokens"]
    *events, last = events_of(post(http, kind, stream=True, stream_options={"include_usage": True}))
    assert all(event["usage"] is None for event in events)
    assert last["usage"] == expected
    assert len({(e["id"], e["created"], e["model"], e["object"]) for e in [*events, last]}) == 1


# 5: a client that goes away ends its generation: test_disconnect.py.
# 6: a full server says so, and has no unbounded queue: test_limits.py.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stream", [False, True])
def test_7_stop_strings_neither_leak_nor_cut_short(
    client: openai.OpenAI, kind: str, stream: bool
) -> None:
    whole = text_of(create(client, kind).choices[0])
    # Three characters hardly ever are one token; any place must do.
    for place in (1, 4, len(whole) // 2):
        stop = whole[place : place + 3]
        answer = create(client, kind, stop=[stop, "never"], stream=stream)
        parts = list(answer) if stream else [answer]
        assert "".join(text_of(p.choices[0]) for p in parts) == whole[: whole.index(stop)]
        assert parts[-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize("kind", KINDS)
def test_8_no_character_is_split_over_chunks(
    client: openai.OpenAI, engine: Engine, kind: str
) -> None:
    """The logit bias makes the demo target write emoji, four tokens each."""
    face = engine.tokenizer.encode("🙂")
    body = {"allowed_token_ids": face, "ignore_eos": True}
    whole = create(client, kind, seed=1, temperature=2, extra_body=body)
    chunks = list(create(client, kind, seed=1, temperature=2, extra_body=body, stream=True))
    assert "".join(text_of(chunk.choices[0]) for chunk in chunks) == text_of(whole.choices[0])
    # Echo, whose prompt is all emoji, comes as it went in.
    echoed = client.completions.create(
        model="demo", prompt="🙂é日本" * 3, echo=True, max_tokens=1, stream=True
    )
    assert next(iter(echoed)).choices[0].text == "🙂é日本" * 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": 10**12},
        {"max_tokens": 10**300},
        {"stop": [""]},
        {"seed": 2**70},
        {"temperature": 1e308},
        {"top_k": 2**70},
        {"logit_bias": {"1": 1e9}},
        {"stop_token_ids": [2**40]},
        {"n": 10**9},
        {"stream_options": {"include_usage": True}},
    ],
)
def test_9_what_cannot_be_done_is_400_never_500(
    http: httpx.Client, kind: str, fields: dict[str, Any]
) -> None:
    answer = post(http, kind, **fields)
    # A top_k beyond the vocabulary keeps all of it.
    assert answer.status_code == (200 if "top_k" in fields else 400), answer.text
    if answer.status_code == 400:
        assert answer.json()["error"]["param"] in fields


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("n", 17),
        ("logprobs", 6),
        ("top_logprobs", 21),
        ("stop", ["x"] * 5),
        ("stop", "x" * 257),
        ("logit_bias", {str(i): 0 for i in range(1025)}),
        ("bad_token_ids", [0] * 4097),
        ("max_tokens", 1_000_000),
    ],
)
def test_10_nothing_is_unbounded(http: httpx.Client, kind: str, param: str, value: Any) -> None:
    answer = post(http, kind, **{param: value})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert len(answer.content) < 1000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("send", "status"),
    [
        ({"model": "other"}, 404),
        ({"temperature": 9}, 400),
        ({"unknown": 1}, 400),
        ({"max_tokens": 5000}, 400),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_11_every_error_is_in_the_envelope(
    http: httpx.Client, kind: str, send: dict[str, Any], status: int, stream: bool
) -> None:
    answer = post(http, kind, stream=stream, **send)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["param"] == next(iter(send))


def test_11_the_client_raises_its_own_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        create(client, "chat", max_tokens=5000)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError) as missing:
        create(client, "chat", model="gpt-9")
    assert missing.value.code == "model_not_found"


WRONG = [None, True, "text", -1, 1.5, [], {}, [None], {"a": None}, [[[]]]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "field",
    ["model", "prompt", "messages", "max_tokens", "temperature", "n", "stop", "logit_bias", "seed"],
)
def test_12_wrong_types_are_400(http: httpx.Client, kind: str, field: str) -> None:
    for value in WRONG:
        answer = post(http, kind, **{field: value})
        assert answer.status_code in (200, 400, 404), (value, answer.text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("tools", [{"type": "function"}]),
        ("guided_grammar", "start: x"),
        ("suffix", "end"),
        ("best_of", 2),
        ("structured_outputs", {}),
        ("presence_penalties", 1),
    ],
)
def test_13_nothing_is_silently_ignored(
    http: httpx.Client, kind: str, param: str, value: Any
) -> None:
    error = post(http, kind, **{param: value}).json()["error"]
    assert error["param"] == param
    assert error["code"] in ("unsupported_parameter", "unknown_parameter")


def test_13_every_sampling_parameter_acts(http: httpx.Client, engine: Engine) -> None:
    plain = post(http, "completions").json()["choices"][0]["text"]
    first = engine.generate(PROMPT, SamplingParams(max_tokens=1)).tokens[0]
    acting: list[dict[str, Any]] = [
        {"logit_bias": {str(first): -100}},
        {"bad_token_ids": [first]},
        {"allowed_token_ids": [5, 6, 7]},
        {"repetition_penalty": 10.0},
        {"temperature": 2, "seed": 11},
        {"max_tokens": 2},
        {"stop": plain[3:5]},
        {"stop_token_ids": [first]},
    ]
    for fields in acting:
        text = post(http, "completions", **fields).json()["choices"][0]["text"]
        assert text != plain, fields


def test_14_other_sites_get_no_permission(http: httpx.Client) -> None:
    answer = http.get("/v1/models", headers={"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers
    preflight = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    assert http.options("/v1/completions", headers=preflight).status_code == 405


def test_every_answer_has_one_request_id(http: httpx.Client) -> None:
    for path in ("/v1/models", "/nothing", "/health"):
        answer = http.get(path, headers={"x-request-id": "mine-1"})
        assert answer.headers.get_list("x-request-id") == ["mine-1"]
        assert http.get(path).headers["x-request-id"]
