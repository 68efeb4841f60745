"""The official client gets the target's own text, whole and streamed."""

import asyncio

import httpx
import openai
import pytest
from openai.types import Completion

from dsi_ray.experiments.bench.prompts import held_out_code
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine

PROMPTS = [*held_out_code(2), "# Ünïcödé 🙂\n"]
MANY = 40
GO_ON = {"ignore_eos": True, "temperature": 0}
"""The likeliest text, wherever the demo target would end it."""


def expected(engine: Engine, prompt: str | list[int], max_tokens: int = MANY) -> str:
    return engine.generate(prompt, SamplingParams(max_tokens=max_tokens, ignore_eos=True)).text


@pytest.mark.parametrize("prompt", PROMPTS)
def test_text_is_the_engines(client: openai.OpenAI, engine: Engine, prompt: str) -> None:
    answer = client.completions.create(
        model="demo", prompt=prompt, max_tokens=MANY, extra_body=GO_ON
    )
    assert answer.choices[0].text == expected(engine, prompt)
    assert answer.object == "text_completion"
    assert answer.model == "demo"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(engine.tokenizer.encode(prompt))
    assert answer.usage.completion_tokens == MANY
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@pytest.mark.parametrize("prompt", PROMPTS)
def test_stream_is_the_same_text(client: openai.OpenAI, engine: Engine, prompt: str) -> None:
    chunks = list(
        client.completions.create(
            model="demo", prompt=prompt, max_tokens=MANY, stream=True, extra_body=GO_ON
        )
    )
    assert "".join(chunk.choices[0].text for chunk in chunks) == expected(engine, prompt)
    assert len({(chunk.id, chunk.created, chunk.object) for chunk in chunks}) == 1
    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    assert reasons[-1] == "length"
    assert set(reasons[:-1]) == {None}
    assert all(chunk.usage is None for chunk in chunks)


def test_stream_ends_with_usage_where_asked(client: openai.OpenAI) -> None:
    arguments = {"model": "demo", "prompt": PROMPTS[0], "max_tokens": 5, "extra_body": GO_ON}
    whole = client.completions.create(**arguments)
    *chunks, last = client.completions.create(
        **arguments, stream=True, stream_options={"include_usage": True}
    )
    assert last.choices == []
    assert last.usage == whole.usage
    assert all(chunk.usage is None for chunk in chunks)


def test_stream_ends_with_done(http: httpx.Client) -> None:
    body = {"model": "demo", "prompt": "x", "max_tokens": 3, "stream": True}
    answer = http.post("/v1/completions", json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = answer.text.removesuffix("\n\n").split("\n\n")
    assert all(event.startswith("data: ") for event in events)
    assert events[-1] == "data: [DONE]"


def test_token_ids_are_a_prompt(client: openai.OpenAI, engine: Engine) -> None:
    ids = engine.tokenizer.encode(PROMPTS[0])
    answer = client.completions.create(model="demo", prompt=ids, max_tokens=MANY, extra_body=GO_ON)
    assert answer.choices[0].text == expected(engine, PROMPTS[0])


@pytest.mark.parametrize("as_ids", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_a_list_of_prompts_gives_a_choice_each(
    client: openai.OpenAI, engine: Engine, as_ids: bool, stream: bool
) -> None:
    prompts = [engine.tokenizer.encode(p) for p in PROMPTS] if as_ids else PROMPTS
    answer = client.completions.create(
        model="demo", prompt=prompts, max_tokens=12, stream=stream, extra_body=GO_ON
    )
    texts = dict.fromkeys(range(len(PROMPTS)), "")
    for part in [answer] if isinstance(answer, Completion) else answer:
        for choice in part.choices:
            texts[choice.index] += choice.text
    assert texts == {i: expected(engine, p, 12) for i, p in enumerate(PROMPTS)}


def test_sixteen_tokens_by_default(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="demo", prompt=PROMPTS[0], extra_body=GO_ON)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16
    assert answer.choices[0].finish_reason == "length"


@pytest.mark.parametrize("stream", [False, True])
def test_stop_string_ends_the_text(client: openai.OpenAI, engine: Engine, stream: bool) -> None:
    whole = expected(engine, PROMPTS[0])
    stop = whole[7:10]
    answer = client.completions.create(
        model="demo",
        prompt=PROMPTS[0],
        max_tokens=MANY,
        stop=[stop, "\0"],
        stream=stream,
        extra_body=GO_ON,
    )
    parts = [answer] if isinstance(answer, Completion) else list(answer)
    assert "".join(part.choices[0].text for part in parts) == whole[: whole.index(stop)]
    assert parts[-1].choices[0].finish_reason == "stop"


def test_stop_token_ends_the_text(client: openai.OpenAI, engine: Engine) -> None:
    tokens = engine.generate(PROMPTS[0], SamplingParams(max_tokens=MANY, ignore_eos=True)).tokens
    answer = client.completions.create(
        model="demo",
        prompt=PROMPTS[0],
        max_tokens=MANY,
        extra_body={"stop_token_ids": [tokens[5]], **GO_ON},
    )
    assert answer.usage is not None
    assert answer.usage.completion_tokens == tokens.index(tokens[5]) + 1
    assert answer.choices[0].finish_reason == "stop"


def test_async_clients_at_once(url: str, engine: Engine) -> None:
    async def ask() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as client:
            return await asyncio.gather(*(stream(client, p) for p in PROMPTS))

    async def stream(client: openai.AsyncOpenAI, prompt: str) -> str:
        chunks = await client.completions.create(
            model="demo", prompt=prompt, max_tokens=MANY, stream=True, extra_body=GO_ON
        )
        return "".join([chunk.choices[0].text async for chunk in chunks])

    assert asyncio.run(ask()) == [expected(engine, prompt) for prompt in PROMPTS]


def test_seed_changes_nothing_at_temperature_zero(client: openai.OpenAI, engine: Engine) -> None:
    answer = client.completions.create(
        model="demo", prompt=PROMPTS[0], max_tokens=MANY, seed=7, extra_body=GO_ON
    )
    assert answer.choices[0].text == expected(engine, PROMPTS[0])


def test_models(client: openai.OpenAI) -> None:
    (model,) = client.models.list()
    assert model.id == "demo"
    assert client.models.retrieve("demo") == model
