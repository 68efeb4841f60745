"""What a client is told: the server that answers has no model behind it."""

import asyncio
import json
import re
import sys
from typing import Any

import httpx
import pytest

from dsi_ray.serving.schema.server import ModelCard
from dsi_ray.serving.schema.tokens import Tokens

from .test_overload import Site
from .valve import VOCABULARY


async def request(site: Site, method: str, path: str, body: bytes = b"") -> httpx.Response:
    async with site.client() as client:
        headers = {"content-type": "application/json"}
        return await client.request(method, path, content=body, headers=headers)


def post(body: bytes) -> dict[str, Any]:
    answer = asyncio.run(request(Site(), "POST", "/v1/completions", body))
    assert answer.status_code == 400
    error: dict[str, Any] = answer.json()["error"]
    return error


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"model": "valve", "prompt": "\xff"}', "not valid UTF-8"),
        (b'{"model": "valve", "prompt": "x", "seed": ' + b"9" * 5000 + b"}", "too many digits"),
    ],
    ids=["arrays", "objects", "latin-1", "digits"],
)
def test_a_body_that_the_parser_gives_up_on(body: bytes, words: str) -> None:
    assert words in post(body)["message"]


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"stop": "x" * 257}, "stop", "256 characters"),
        ({"stop": ["x", "y" * 257]}, "stop", "256 characters"),
        ({"stop": "\ud800"}, "stop", "valid Unicode"),
        ({"prompt": []}, "prompt", "no list empty"),
        ({"prompt": [[]]}, "prompt", "no list empty"),
    ],
    ids=str,
)
def test_a_message_names_what_is_wrong(fields: dict[str, Any], param: str, words: str) -> None:
    error = post(json.dumps({"model": "valve", "prompt": "x", **fields}).encode())
    assert error["param"] == param
    assert words in error["message"]


@pytest.mark.parametrize("path", ["/", "/health", "/v1/models", "/v1/models/valve", "/version"])
def test_head_is_get_without_the_body(path: str) -> None:
    site = Site()
    head = asyncio.run(request(site, "HEAD", path))
    get = asyncio.run(request(site, "GET", path))
    assert (head.status_code, head.content) == (200, b"")
    assert get.content
    assert head.headers == get.headers


@pytest.mark.parametrize(("length", "status"), [(63, 200), (64, 200), (65, 400)])
def test_echo_alone_may_fill_the_context(length: int, status: int) -> None:
    body = {"model": "valve", "prompt": [7] * length, "max_tokens": 0, "echo": True}
    answer = asyncio.run(request(Site(), "POST", "/v1/completions", json.dumps(body).encode()))
    assert answer.status_code == status
    if status == 200:
        (choice,) = answer.json()["choices"]
        assert (choice["text"], choice["finish_reason"]) == ("⟨7⟩" * length, "length")
    else:
        assert answer.json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize(("limit", "shown"), [(4096, 4096), (sys.maxsize, None)])
def test_no_limit_is_null(limit: int, shown: int | None) -> None:
    card = ModelCard(id="x", created=0, root="x", max_model_len=limit)
    tokens = Tokens(count=0, max_model_len=limit, tokens=[])
    assert card.max_model_len == tokens.max_model_len == shown


@pytest.mark.parametrize("field", ["top_k", "min_tokens", "max_tokens", "seed", "n", "lookahead"])
def test_an_integer_that_no_register_holds_is_no_failure(field: str) -> None:
    huge = 10**400
    fields = {"dsi": {field: huge}} if field == "lookahead" else {field: huge}
    body = {"model": "valve", "prompt": [VOCABULARY - 1], "max_tokens": 1, **fields}
    site = Site()
    site.engine.valve.set()
    answer = asyncio.run(request(site, "POST", "/v1/completions", json.dumps(body).encode()))
    assert answer.status_code == (200 if field == "top_k" else 400)


def test_the_pages_buttons_show_that_they_do_not_work_without_its_scripts() -> None:
    page = asyncio.run(request(Site(), "GET", "/")).text
    for button in ("generate", "compare"):
        (tag,) = re.findall(rf'<button id="{button}"[^>]*>', page)
        assert " disabled>" in tag
