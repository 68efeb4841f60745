"""Somebody else's server: OpenAI's streams on a real socket, as good or as broken as asked for.

A word in the prompt makes trouble: ``busy`` (503), ``hang``, ``error`` (an event in mid-stream),
``cut`` (the stream ends in mid-text), ``garbage`` (no JSON).
"""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

CHUNK_TOKENS = 3
"""Tokens of each chunk."""


@dataclass
class FakeServer:
    """An application and what it has been asked.

    Attributes:
        bodies: Of the requests for text, in order of arrival.
        tokens: Sent so far; also what its counters are made of.
    """

    bodies: list[dict[str, Any]] = field(default_factory=list)
    tokens: int = 0

    @property
    def app(self) -> Starlette:
        """The application."""
        return Starlette(
            routes=[
                Route("/v1/models", self._models),
                Route("/version", self._version),
                Route("/metrics", self._metrics),
                Route("/v1/completions", self._generate, methods=["POST"]),
                Route("/v1/chat/completions", self._generate, methods=["POST"]),
            ]
        )

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"data": [{"id": "fake"}]})

    async def _version(self, request: Request) -> Response:
        return JSONResponse({"version": "1.2.3"})

    async def _metrics(self, request: Request) -> Response:
        # Two target servers, each of which counts half.
        return PlainTextResponse(
            "# TYPE dsi_ray_completion_tokens counter\n"
            f"dsi_ray_completion_tokens_total {self.tokens}\n"
            "# TYPE dsi_ray_target_servers gauge\n"
            "dsi_ray_target_servers 2\n"
            "# TYPE dsi_ray_target_forwards counter\n"
            f'dsi_ray_target_forwards_total{{server="0"}} {self.tokens}\n'
            f'dsi_ray_target_forwards_total{{server="1"}} {self.tokens}\n'
        )

    async def _generate(self, request: Request) -> Response:
        body = json.loads(await request.body())
        self.bodies.append(body)
        prompt = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
        if "busy" in prompt:
            return JSONResponse({"error": {"message": "busy"}}, 503, {"retry-after": "7"})
        events = self._events(prompt, body["max_tokens"], "messages" in body)
        return StreamingResponse(events, media_type="text/event-stream")

    async def _events(self, prompt: str, count: int, chat: bool) -> AsyncIterator[str]:
        if "hang" in prompt:
            await asyncio.Event().wait()
        if chat:
            yield _event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
        for sent in range(0, count, CHUNK_TOKENS):
            # A character at which a careless reader would end the line.
            text = "a\u2028b" * min(CHUNK_TOKENS, count - sent)
            yield _event({"choices": [{"delta": {"content": text}} if chat else {"text": text}]})
            if "error" in prompt:
                yield _event({"error": {"message": "it went wrong"}})
                return
            if "cut" in prompt:
                return
            if "garbage" in prompt:
                yield "data: {nothing\n\n"
        self.tokens += count
        yield ": a comment\n\n"
        yield _event({"choices": [{"delta": {}, "text": "", "finish_reason": "length"}]})
        yield _event({"choices": [], "usage": _usage(count), "metrics": _metrics(count)})
        yield "data: [DONE]\n\n"


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


def _usage(count: int) -> dict[str, int]:
    return {"prompt_tokens": 5, "completion_tokens": count, "total_tokens": 5 + count}


def _metrics(count: int) -> dict[str, Any]:
    """Half of what was drafted came true."""
    drafts = {
        "num_draft_tokens": 2 * count,
        "num_accepted_draft_tokens": count,
        "num_spec_steps": count,
    }
    return {"speculative_decoding": drafts}


@contextmanager
def serving(server: FakeServer) -> Iterator[str]:
    """Serves on a free port, in a thread, for the length of a ``with`` block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            server.app, log_level="critical", ws="none", timeout_graceful_shutdown=1
        )
        http = uvicorn.Server(config)
        thread = threading.Thread(target=http.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            http.should_exit = True
            thread.join()
