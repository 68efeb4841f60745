"""A full, slow or broken server says so."""

import asyncio
import hashlib
import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import httpx
import openai
import pytest
from starlette.types import Message

from dsi_ray.runtime.client.engine import Engine
from dsi_ray.serving.api import build_api
from dsi_ray.serving.config import ServingConfig

from .asgi import Answer
from .conftest import Api

LONG = {"model": "demo", "prompt": "hello", "max_tokens": 2000}
SHORT = {"model": "demo", "prompt": "hello", "max_tokens": 2}


def post(client: httpx.AsyncClient, body: dict[str, Any]) -> Any:
    return client.post("/v1/completions", json=body)


async def stream(app: Any, body: dict[str, Any], on_first: Callable[[], None]) -> Answer:
    """Posts a body by hand; calls ``on_first`` when the first event is there."""
    messages: list[Message] = [{"type": "http.request", "body": json.dumps(body).encode()}]
    answer = Answer()

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await asyncio.Event().wait()
        raise AssertionError("the client stays")

    async def send(message: Message) -> None:
        answer.status = message.get("status", answer.status)
        new = message.get("body", b"")
        if new and not answer.body:
            on_first()
        answer.body += new

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/completions",
        "headers": [(b"content-type", b"application/json")],
        "query_string": b"",
    }
    await app(scope, receive, send)
    return answer


def last_event(answer: Answer) -> Any:
    *_, last, end = answer.body.decode().split("\n\n")
    assert end == ""
    return json.loads(last.removeprefix("data: "))


def test_6_a_full_server_sends_clients_away(simulated: Engine) -> None:
    app = build_api(
        simulated, ServingConfig(served_model_name="demo", max_requests=2, max_queued_requests=0)
    )
    transport = httpx.ASGITransport(app)

    async def fill() -> list[httpx.Response]:
        begun = [asyncio.Event(), asyncio.Event()]
        running = [
            asyncio.create_task(stream(app, {**LONG, "stream": True}, event.set)) for event in begun
        ]
        for event in begun:
            await event.wait()
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            turned_away = [await post(client, SHORT), await post(client, {**SHORT, "stream": True})]
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            return [*turned_away, await post(client, SHORT)]

    first, second, after = asyncio.run(fill())
    for answer in (first, second):
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert answer.json()["error"]["code"] == "overloaded"
    assert after.status_code == 200


def test_too_late_for_a_first_byte_is_504(simulated: Engine, api: Api) -> None:
    async def ask(stream: bool) -> httpx.Response:
        async with api(simulated, request_timeout_s=0.001) as client:
            answer: httpx.Response = await post(client, {**LONG, "stream": stream})
            return answer

    for stream in (False, True):
        answer = asyncio.run(ask(stream))
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "timeout")


def test_too_late_in_mid_stream_is_an_error_and_no_end(simulated: Engine) -> None:
    config = ServingConfig(served_model_name="demo", request_timeout_s=0.5)
    app = build_api(simulated, config)
    answer = asyncio.run(stream(app, {**LONG, "stream": True}, lambda: None))
    assert answer.status == 200
    assert answer.body.startswith(b'data: {"id":')
    assert b"[DONE]" not in answer.body
    error = last_event(answer)["error"]
    assert (error["type"], error["code"]) == ("server_error", "timeout")


@pytest.fixture
def mortal(ray_cluster: object) -> Any:
    config = {"target": "simulated:tpot_ms=20", "algorithm": "non-si", "drafters": []}
    with Engine(ServingConfig.model_validate(config)) as engine:
        yield engine


@pytest.fixture
def kill(mortal: Engine) -> Callable[[], None]:
    """Ends the coordinator of the engine's only group as a crash would."""
    (group,) = asyncio.run(mortal.status())["groups"]
    return lambda: os.kill(group["pid"], signal.SIGKILL)


def test_a_failure_in_mid_stream_is_an_error_and_no_end(
    mortal: Engine, kill: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    app = build_api(mortal, ServingConfig(served_model_name="demo"))
    answer = asyncio.run(stream(app, {**LONG, "stream": True}, kill))
    assert answer.status == 200
    assert b"[DONE]" not in answer.body
    error = last_event(answer)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("server_error", "unavailable")
    # What happened stays in the log, under the name that the client was told.
    assert "coordinator" not in error["message"] and "coordinator" in caplog.text
    assert error["message"].split()[-1] in caplog.text


def test_a_lost_engine_is_503_and_comes_back_by_itself(
    mortal: Engine, kill: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    app = build_api(mortal, ServingConfig(served_model_name="demo"))
    kill()

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            headers = {"x-request-id": "find-me"}
            answers = [
                await client.post("/v1/completions", json=SHORT, headers=headers),
                await client.get("/health"),
                await client.post(
                    "/v1/completions", json={**SHORT, "stream": True}, headers=headers
                ),
            ]
            deadline = time.monotonic() + 30
            while (health := await client.get("/health")).status_code != 200:
                assert time.monotonic() < deadline, health.text
                await asyncio.sleep(0.02)
            return [*answers, await client.post("/v1/completions", json=SHORT)]

    first, health, second, after = asyncio.run(ask())
    for answer in (first, second):
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        assert int(answer.headers["retry-after"]) > 0
        assert answer.json()["error"]["message"].endswith("find-me")
        assert "coordinator" not in answer.text
    assert "find-me" in caplog.text
    assert (health.status_code, health.json()["status"]) == (503, "failed")
    assert after.status_code == 200


def test_keys(simulated: Engine, api: Api) -> None:
    keys = frozenset({hashlib.sha256(b"secret").digest()})

    async def ask(key: str) -> Any:
        http = api(simulated, keys)
        async with openai.AsyncOpenAI(
            base_url="http://server/v1", api_key=key, http_client=http, max_retries=0
        ) as client:
            assert (await http.get("/health")).status_code == 200
            return await client.completions.create(**SHORT)

    assert asyncio.run(ask("secret")).choices[0].text
    with pytest.raises(openai.AuthenticationError) as caught:
        asyncio.run(ask("wrong"))
    assert caught.value.code == "invalid_api_key"


def test_a_large_body_is_413(simulated: Engine, api: Api) -> None:
    async def ask(content: Any) -> httpx.Response:
        async with api(simulated, max_body_bytes=1000) as client:
            headers = {"content-type": "application/json"}
            return await client.post("/v1/completions", content=content, headers=headers)

    async def chunks() -> Any:
        for _ in range(100):
            yield b" " * 100

    for content in (b" " * 10_000, chunks()):
        answer = asyncio.run(ask(content))
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")


@pytest.mark.parametrize("streamed", [False, True])
def test_a_large_body_is_413_through_the_real_server(url: str, streamed: bool) -> None:
    size = ServingConfig().max_body_bytes + 1

    def chunks() -> Any:
        for _ in range(9):
            yield b" " * 2**20

    content = chunks() if streamed else b" " * size
    answer = httpx.post(f"{url}/v1/completions", content=content, timeout=60)
    assert answer.status_code == 413


def test_a_target_without_logits_is_greedy_unless_told_otherwise(
    simulated: Engine, api: Api
) -> None:
    async def ask(**fields: Any) -> httpx.Response:
        async with api(simulated) as client:
            answer: httpx.Response = await post(client, {**SHORT, **fields})
            return answer

    assert asyncio.run(ask()).status_code == 200
    refused = asyncio.run(ask(temperature=1))
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "temperature")
