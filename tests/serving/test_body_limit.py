"""Bodies are bounded before anything reads them."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from dsi_ray.serving.config import ServingConfig
from dsi_ray.serving.middleware.body_limit import BodyLimit

from .asgi import Answer, Echo, call, scope, until

LIMIT = 20
PATH = "/v1/completions"


def limited(app: Any, **settings: Any) -> BodyLimit:
    return BodyLimit(app, ServingConfig(max_body_bytes=LIMIT, **settings), {PATH})


def send(app: Any, parts: list[bytes], headers: dict[str, str] | None = None) -> Answer:
    return asyncio.run(call(limited(app), scope(PATH, headers), parts))


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

    request = scope(PATH, {"content-length": "21"})
    asyncio.run(limited(Echo())(request, never, watch))
    assert answer.status == 413


@pytest.mark.parametrize("length", ["", "-1", "1e9", "lots"])
def test_a_length_that_is_none_is_not_believed(length: str) -> None:
    assert send(Echo(), [b"x" * 21], {"content-length": length}).status == 413
    assert send(Echo(), [b"x" * 20], {"content-length": length}).status == 200


def test_a_client_that_goes_away_early_is_passed_on() -> None:
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(await receive())

    asyncio.run(call(limited(app), scope(PATH), []))
    assert seen == [{"type": "http.disconnect"}]


def test_other_protocols_pass() -> None:
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    asyncio.run(call(limited(app), {"type": "lifespan"}))
    assert seen == ["lifespan"]


class Slow:
    """A client that sends the beginning of a body and then nothing, until it is told to end it."""

    def __init__(self, app: Any, path: str = PATH) -> None:
        self.end = asyncio.Event()
        self.answer = Answer()
        self._begun = False
        self.task = asyncio.create_task(app(scope(path), self._receive, self._send))

    async def _receive(self) -> Any:
        if self._begun:
            await self.end.wait()
            return {"type": "http.request", "body": b"}"}
        self._begun = True
        return {"type": "http.request", "body": b"{", "more_body": True}

    async def _send(self, message: Any) -> None:
        self.answer.status = message.get("status", self.answer.status)
        self.answer.body += message.get("body", b"")


def test_a_body_that_never_ends_is_408() -> None:
    async def wait() -> Answer:
        slow = Slow(limited(Echo(), body_timeout_s=0.01))
        await slow.task
        return slow.answer

    answer = asyncio.run(wait())
    assert answer.status == 408
    assert json.loads(answer.body)["error"]["code"] == "request_timeout"


def test_slow_bodies_keep_nobody_out() -> None:
    """The one that began first makes room for the next; those that end are not touched."""

    async def crowd() -> tuple[list[int], Answer]:
        app = limited(Echo(), max_requests=2, max_queued_requests=1)
        slow = [Slow(app) for _ in range(10)]
        await until(lambda: sum(client.task.done() for client in slow) == 7)
        honest = await call(app, scope(PATH), [b"{}"])
        for client in slow:
            client.end.set()
        await asyncio.gather(*(client.task for client in slow))
        return [client.answer.status for client in slow], honest

    statuses, honest = asyncio.run(crowd())
    assert statuses == [408] * 8 + [200] * 2
    assert (honest.status, honest.body) == (200, b"{}")


def test_nobody_waits_for_a_body_that_nobody_reads() -> None:
    """An open path such as /health has no body: it is answered whatever comes behind the head."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 405, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def ask() -> int:
        slow = Slow(limited(app), "/health")
        await slow.task
        return slow.answer.status

    assert asyncio.run(ask()) == 405


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate, gzip", "GZIP"])
def test_a_compressed_body_is_415_with_advice(coding: str) -> None:
    answer = send(Echo(), [b"\x1f\x8b"], {"content-encoding": coding})
    assert answer.status == 415
    assert "uncompressed" in json.loads(answer.body)["error"]["message"]


@pytest.mark.parametrize("coding", ["", "identity", "Identity"])
def test_an_uncompressed_body_may_say_so(coding: str) -> None:
    assert send(Echo(), [b"{}"], {"content-encoding": coding}).status == 200
