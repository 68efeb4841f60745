"""The name of a request."""

import asyncio

import pytest
from starlette.types import Receive, Scope, Send

from dsi_ray.serving.middleware.request_id import RequestId, request_id

from .asgi import call, scope


def name_of(header: str | None) -> str:
    names: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        names.append(request_id.get())

    headers = {} if header is None else {"x-request-id": header}
    asyncio.run(call(RequestId(app), scope(headers=headers)))
    return names[0]


@pytest.mark.parametrize("name", ["abc-123", "a/b:c.d=e+f_g", "x" * 128])
def test_a_sane_one_is_kept(name: str) -> None:
    assert name_of(name) == name


@pytest.mark.parametrize(
    "name", [None, "", "x" * 129, "two words", "über", 'quo"te', "line\x0bfeed"]
)
def test_any_other_is_replaced(name: str | None) -> None:
    first, second = name_of(name), name_of(name)
    assert first != second
    assert first.isalnum() and len(first) == 32
