"""``dsi-ray serve`` on a Ray of its own."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator

import httpx
import pytest

from .conftest import COMMAND, SIMULATED, descendants, dsi_ray, still_running


@pytest.fixture
def server(port: int) -> Iterator["subprocess.Popen[str]"]:
    command = [*COMMAND, "serve", *SIMULATED, f"--port={port}", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def test_serves_until_a_signal_and_leaves_nothing(
    server: "subprocess.Popen[str]", port: int
) -> None:
    assert server.stdout is not None and server.stderr is not None
    ready = json.loads(server.stdout.readline())
    assert ready == {"url": f"http://127.0.0.1:{port}", "model": "simulated"}
    body = {"model": "simulated", "prompt": "hello", "max_tokens": 6}
    answer = httpx.post(f"{ready['url']}/v1/completions", json=body, timeout=60)
    assert answer.json()["choices"][0]["text"].count("⟨") == 6

    second = dsi_ray("serve", *SIMULATED, f"--port={port}")
    assert second.returncode == 2
    assert second.stderr.startswith(f"error: cannot listen on 127.0.0.1:{port}")
    assert second.stderr.count("\n") == 1

    started = descendants(server.pid)
    assert started
    body |= {"max_tokens": 100, "stream": True}
    with httpx.stream("POST", f"{ready['url']}/v1/completions", json=body, timeout=60) as stream:
        lines = filter(None, stream.iter_lines())
        next(lines)
        server.send_signal(signal.SIGTERM)
        # What is in flight may end.
        *_, last = lines
        assert last == "data: [DONE]"
    assert server.wait(timeout=60) == 0
    assert (server.stdout.read(), server.stderr.read()) == ("", "")
    deadline = time.monotonic() + 10
    while (left := still_running(started)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


@pytest.mark.parametrize(
    ("arguments", "mentions"),
    [
        (["--host=256.0.0.1"], "--host"),
        (["--target=/no/such/model", "--drafter=lookup"], "/no/such/model"),
    ],
)
def test_what_cannot_be_served_is_one_line(arguments: list[str], mentions: str, port: int) -> None:
    result = dsi_ray("serve", f"--port={port}", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert mentions in result.stderr
