"""Plain ASGI: a request in, what was sent out."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass
class Answer:
    """What an application sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


def scope(path: str = "/v1/models", headers: dict[str, str] | None = None) -> dict[str, Any]:
    """A request's scope."""
    pairs = [(k.lower().encode(), v.encode("latin-1")) for k, v in (headers or {}).items()]
    return {"type": "http", "method": "POST", "path": path, "headers": pairs, "query_string": b""}


async def call(app: ASGIApp, request: dict[str, Any], parts: Iterable[bytes] = (b"",)) -> Answer:
    """Sends a request whose body comes in ``parts``, and then nothing more."""
    parts = list(parts)
    messages: list[Message] = [
        {"type": "http.request", "body": part, "more_body": index < len(parts) - 1}
        for index, part in enumerate(parts)
    ]
    answer = Answer()

    async def receive() -> Message:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            answer.body += message.get("body", b"")

    await app(request, receive, send)
    return answer


async def until(done: Callable[[], bool], turns: int = 100_000) -> None:
    """Lets other tasks run until something is so."""
    for _ in range(turns):
        if done():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


class Echo:
    """An application that answers with the body that it got, and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.after_body: Message | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.calls += 1
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self.after_body = await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})
