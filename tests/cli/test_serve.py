"""``dsi-ray serve`` on a Ray of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from .conftest import COMMAND, SIMULATED, descendants, dsi_ray, listening, still_running, titles

LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


Begin = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Starts a command in a process group of its own."""
    with contextlib.ExitStack() as stack:

        def start(*arguments: str) -> "subprocess.Popen[str]":
            process = subprocess.Popen(
                [*COMMAND, *arguments, *SIMULATED],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def server(begin: Begin, port: int) -> "subprocess.Popen[str]":
    """A server that is just starting."""
    return begin("serve", f"--port={port}", "--json")


def eventually(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)


def health(url: str) -> httpx.Response | None:
    """What it answers; None if nobody listens."""
    try:
        return httpx.get(f"{url}/health", timeout=60)
    except httpx.TransportError:
        return None


def check_unavailable(answer: httpx.Response) -> None:
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["error"]["code"] == "unavailable"


def test_serves_until_a_signal_and_leaves_nothing(
    server: "subprocess.Popen[str]", port: int
) -> None:
    assert server.stdout is not None and server.stderr is not None
    url = f"http://127.0.0.1:{port}"
    # Nobody who comes too early, or too late, is told that there is no such path.
    eventually(lambda: health(url) is not None)
    early = health(url)
    assert early is not None
    if early.status_code != 200:
        check_unavailable(early)

    ready = json.loads(server.stdout.readline())
    assert ready == {"url": url, "model": "simulated"}
    body = {"model": "simulated", "prompt": "hello", "max_tokens": 6}
    answer = httpx.post(f"{url}/v1/completions", json=body, timeout=60)
    assert answer.json()["choices"][0]["text"].count("⟨") == 6

    second = dsi_ray("serve", *SIMULATED, f"--port={port}")
    assert second.returncode == 2
    assert second.stderr.startswith(f"error: cannot listen on 127.0.0.1:{port}")
    assert second.stderr.count("\n") == 1

    started = descendants(server.pid)
    assert started
    for process, name in titles(server.pid).items():
        # Serve's replicas have a server of their own, whose address cannot be chosen.
        assert "ServeReplica" in name or listening(process) <= LOOPBACK, name
    body |= {"max_tokens": 300, "stream": True}
    with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=60) as stream:
        lines = filter(None, stream.iter_lines())
        next(lines)
        # The whole group, as `timeout` does: it must not reach Ray.
        os.killpg(server.pid, signal.SIGTERM)
        eventually(lambda: (late := health(url)) is None or late.status_code != 200)
        if (late := health(url)) is not None:
            check_unavailable(late)
        # What is in flight may end.
        *_, last = lines
        assert last == "data: [DONE]"
    assert server.wait(timeout=60) == 0
    assert (server.stdout.read(), server.stderr.read()) == ("", "")
    eventually(lambda: not still_running(started), seconds=10)


@pytest.mark.parametrize(
    ("command", "number", "begun", "status"),
    [
        (["serve"], signal.SIGTERM, "gcs_server", 143),
        (["serve"], signal.SIGINT, "RuntimeEnvAgent", 130),
        (["serve"], signal.SIGTERM, "ServeController", 143),
        (["generate", "hello"], signal.SIGTERM, "RuntimeEnvAgent", 143),
        (["bench"], signal.SIGINT, "RuntimeEnvAgent", 130),
    ],
)
def test_a_signal_while_it_starts_leaves_nothing(
    begin: Begin, command: list[str], number: int, begun: str, status: int
) -> None:
    server = begin(*command)
    started: set[int] = set()

    def has_begun() -> bool:
        names = titles(server.pid)
        started.update(names)
        return any(begun in name for name in names.values())

    eventually(has_begun)
    os.killpg(server.pid, number)

    def has_ended() -> bool:
        started.update(descendants(server.pid))
        return server.poll() is not None

    eventually(has_ended)
    assert server.stderr is not None
    assert (server.returncode, server.stderr.read()) == (status, "")
    eventually(lambda: not still_running(started), seconds=10)


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


SCRIPT = """
import signal
from dsi_ray import Engine, EngineConfig
with Engine(EngineConfig(target="simulated:tpot_ms=10")):
    print("ready", flush=True)
    signal.pause()
"""


def test_a_program_of_ones_own_unwinds_at_sigterm() -> None:
    """Ray would write a stack to stderr and abort."""
    command = [sys.executable, "-c", SCRIPT]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        started = descendants(process.pid)
        process.terminate()
        assert process.wait(timeout=60) == 143
        assert process.stderr.read() == ""
    eventually(lambda: not still_running(started), seconds=10)
