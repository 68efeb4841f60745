"""Serve's own plain words are put into the envelope; nothing else is touched."""

import asyncio
import json

import pytest
from starlette.responses import JSONResponse, PlainTextResponse, Response

from dsi_ray.serving.proxy import Envelope, middlewares

from .asgi import Answer, call, scope


def answer_to(response: Response, path: str = "/v1/models") -> Answer:
    return asyncio.run(call(Envelope(response), scope(path)))


@pytest.mark.parametrize(
    ("theirs", "ours", "code"),
    [
        (404, 503, "unavailable"),
        (503, 503, "overloaded"),
        (408, 408, "request_timeout"),
        (500, 500, None),
    ],
)
def test_an_error_of_the_proxy_itself(theirs: int, ours: int, code: str | None) -> None:
    answer = answer_to(PlainTextResponse("a path of this machine", theirs))
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"]) == (ours, code)
    assert error.keys() == {"message", "type", "param", "code"}
    assert "machine" not in error["message"]
    assert ("retry-after" in answer.headers) == (ours == 503)


@pytest.mark.parametrize(
    "response",
    [
        JSONResponse({"error": {}}, 404),
        JSONResponse({"status": "failed"}, 503),
        PlainTextResponse("metrics"),
    ],
    ids=lambda response: f"{response.status_code} {response.media_type}",
)
def test_what_the_application_answers_stays(response: Response) -> None:
    answer = answer_to(response)
    assert (answer.status, answer.body) == (response.status_code, response.body)


@pytest.mark.parametrize("path", ["/-/healthz", "/-/routes"])
def test_serves_own_paths_stay(path: str) -> None:
    assert answer_to(PlainTextResponse("draining", 503), path).body == b"draining"


def test_serve_gets_it_as_a_middleware() -> None:
    assert [middleware.cls for middleware in middlewares()] == [Envelope]
