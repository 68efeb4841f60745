"""A client that goes away leaves every server idle."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx
import pytest

ENDLESS = {"model": "demo", "prompt": "def f(", "max_tokens": 900, "ignore_eos": True}
DEADLINE_S = 5.0
"""The aim is a second; a busy test machine gets more."""


def wait_until(http: httpx.Client, idle: bool) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        (status,) = http.get("/health").json()["groups"]
        running = sum(server["running_tasks"] for server in status["servers"])
        if idle == (status["requests"] == status["tasks"] == running == 0):
            return
        time.sleep(0.02)
    pytest.fail(f"not {'idle' if idle else 'busy'}: {status}")


@pytest.fixture(autouse=True)
def _idle_before_and_after(http: httpx.Client) -> Iterator[None]:
    wait_until(http, idle=True)
    yield
    wait_until(http, idle=True)


def test_stream_is_left(http: httpx.Client, url: str) -> None:
    with httpx.stream("POST", f"{url}/v1/completions", json={**ENDLESS, "stream": True}) as answer:
        lines = answer.iter_lines()
        for _ in range(6):
            next(lines)
        wait_until(http, idle=False)


def test_plain_call_is_given_up(http: httpx.Client, url: str) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}/v1/completions", json=ENDLESS, timeout=0.5)


def test_many_prompts_are_left(http: httpx.Client, url: str) -> None:
    body = {**ENDLESS, "prompt": ["a", "b"], "stream": True}
    with httpx.stream("POST", f"{url}/v1/completions", json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        wait_until(http, idle=False)


CLIENT = """
import sys, httpx
url, body = sys.argv[1:]
with httpx.stream("POST", url, content=body, headers={"content-type": "application/json"}) as r:
    for line in r.iter_lines():
        print(line, flush=True)
"""


def test_client_is_killed(http: httpx.Client, url: str) -> None:
    body = json.dumps({**ENDLESS, "stream": True})
    command = [sys.executable, "-c", CLIENT, f"{url}/v1/completions", body]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("data: ")
        wait_until(http, idle=False)
        process.kill()
