"""The client against a real socket: good answers, and every kind of bad one."""

import asyncio
import socket
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.client import Client
from loadtest.clock import Clock
from loadtest.record import Drafts, Record
from loadtest.request import requests
from loadtest.scenario import parse
from loadtest.stream import Stream
from tests.loadtest.fake_server import CHUNK_TOKENS


def ask(url: str, prompt: str, timeout_s: float = 30, **changes: Any) -> Record:
    """Sends one request for 10 tokens and returns its record; it was due a second ago."""
    words = {"kind": "words", "words": 1}
    load = {"kind": "closed", "concurrency": 1, "requests": 1}
    scenario = parse({"load": load, "prompts": words, "max_tokens": 10, **changes})
    request = next(requests(scenario, "fake", np.random.default_rng(0)))
    if "prompt" in request.body:
        request.body["prompt"] = prompt
    else:
        request.body["messages"][0]["content"] = prompt

    async def send() -> Record:
        async with httpx.AsyncClient(base_url=url, timeout=None) as http:
            clock = Clock()
            return await Client(http, timeout_s).send(request, clock.now() - 1, clock, "point")

    return asyncio.run(send())


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_tokens_are_counted_by_usage_and_not_by_chunks(fake_url: str, endpoint: str) -> None:
    record = ask(fake_url, "hello", endpoint=endpoint)
    assert (record.error, record.status, record.finish_reason) == (None, 200, "length")
    assert (record.prompt_tokens, record.completion_tokens) == (5, 10)
    assert len(record.chunks_s) == -(-10 // CHUNK_TOKENS)
    assert record.drafts == Drafts(
        num_draft_tokens=20, num_accepted_draft_tokens=10, num_spec_steps=10
    )
    assert record.ttft_s is not None and record.tpot_s is not None
    assert 1 <= record.ttft_s <= record.e2e_s
    assert sorted(record.chunks_s) == list(record.chunks_s)


@pytest.mark.parametrize(
    ("prompt", "error", "status"),
    [
        ("busy", "http_503", 503),
        ("hang", "timeout", 200),
        ("error", "error_event", 200),
        ("cut", "broken_stream", 200),
        ("garbage", "broken_stream", 200),
    ],
)
def test_failures_have_a_kind(fake_url: str, prompt: str, error: str, status: int) -> None:
    record = ask(fake_url, prompt, timeout_s=0.2 if prompt == "hang" else 30)
    assert (record.error, record.status) == (error, status)
    assert record.detail
    assert record.retry_after_s == (7 if prompt == "busy" else None)
    assert record.end_s >= record.sent_s


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    record = ask(f"http://127.0.0.1:{port}", "hello")
    assert (record.error, record.status) == ("connection", None)


def test_the_request_is_what_the_scenario_says(fake_url: str, fake_server: Any) -> None:
    ask(fake_url, "hello", ignore_eos=True, temperature=0.5, seed=3, extra_body={"top_k": 4})
    assert fake_server.bodies[-1] == {
        "model": "fake",
        "prompt": "hello",
        "max_tokens": 10,
        "temperature": 0.5,
        "seed": 3,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        "top_k": 4,
    }


@given(st.lists(st.sampled_from(["text", "ids", "role", "comment", "usage"]), max_size=12))
def test_only_pieces_with_tokens_are_chunks(kinds: list[str]) -> None:
    lines = {
        "text": 'data: {"choices": [{"text": "a"}], "usage": null}',
        "ids": 'data: {"choices": [{"text": "", "token_ids": [1, 2]}]}',
        "role": 'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}',
        "comment": ": still here",
        "usage": 'data: {"usage": {"prompt_tokens": 1, "completion_tokens": 2}, "choices": []}',
    }
    stream = Stream()
    for now, kind in enumerate(kinds):
        stream.feed(lines[kind], now)
    assert stream.chunks_s == [now for now, kind in enumerate(kinds) if kind in ("text", "ids")]
    assert stream.completion_tokens == (2 if "usage" in kinds else None)
    stream.close()
    assert stream.failure is not None
