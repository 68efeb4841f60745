"""Bodies are bounded before anything reads them."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from dsi_ray.serving.body_limit import BodyLimit

from .asgi import Answer, Echo, call, scope

LIMIT = 20


def send(app: Any, parts: list[bytes], headers: dict[str, str] | None = None) -> Answer:
    return asyncio.run(call(BodyLimit(app, LIMIT), scope(headers=headers), parts))


@given(st.lists(st.binary(max_size=12), min_size=1, max_size=8), st.booleans())
def test_what_fits_arrives_whole_and_the_rest_is_413(parts: list[bytes], stated: bool) -> None:
    app, body = Echo(), b"".join(parts)
    answer = send(app, parts, {"content-length": str(len(body))} if stated else None)
    if len(body) <= LIMIT:
        assert (answer.status, answer.body) == (200, body)
        assert app.after_body == {"type": "http.disconnect"}
    else:
        assert answer.status == 413
        assert app.calls == 0


def test_413_is_in_the_envelope_and_closes_the_connection() -> None:
    answer = send(Echo(), [b"x" * (LIMIT + 1)])
    assert json.loads(answer.body)["error"]["code"] == "request_too_large"
    assert answer.headers["connection"] == "close"


def test_a_stated_length_is_enough() -> None:
    async def never() -> Any:
        raise AssertionError("nothing is read")

    answer = Answer()

    async def watch(message: Any) -> None:
        answer.status = message.get("status", answer.status)

    request = scope(headers={"content-length": "21"})
    asyncio.run(BodyLimit(Echo(), LIMIT)(request, never, watch))
    assert answer.status == 413


@pytest.mark.parametrize("length", ["", "-1", "1e9", "lots"])
def test_a_length_that_is_none_is_not_believed(length: str) -> None:
    assert send(Echo(), [b"x" * 21], {"content-length": length}).status == 413
    assert send(Echo(), [b"x" * 20], {"content-length": length}).status == 200


def test_a_client_that_goes_away_early_is_passed_on() -> None:
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(await receive())

    asyncio.run(call(BodyLimit(app, LIMIT), scope(), []))
    assert seen == [{"type": "http.disconnect"}]


def test_other_protocols_pass() -> None:
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    asyncio.run(call(BodyLimit(app, LIMIT), {"type": "lifespan"}))
    assert seen == ["lifespan"]
