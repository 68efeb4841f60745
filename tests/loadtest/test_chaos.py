"""A real server, whose processes die under requests of the openai client."""

import asyncio
import json
import socket
import subprocess
from collections.abc import Iterator

import httpx
import openai
import pytest
from typer.testing import CliRunner

from loadtest.cli import app
from loadtest.errors import LoadTestError
from loadtest.faults import chaos
from loadtest.faults.http_service import HttpService
from tests.cli.conftest import COMMAND, SIMULATED

LOAD = chaos.Load(requests=40, tokens=40, concurrency=8)
ROLES = ("drafter", "target", "ingress", "coordinator")


@pytest.fixture(scope="module")
def url(starts_ray: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of two ingress processes before one group."""
    config = tmp_path_factory.mktemp("chaos") / "config.yaml"
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    config.write_text("num_ingress: 2\nsp_degree: 2\n")
    command = [*COMMAND, "serve", f"--config={config}", *SIMULATED, f"--port={port}", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.terminate()


async def run(url: str, role: str | None = None) -> chaos.Outcome:
    """Sends all requests; kills one process of a role when some have ended."""
    http = httpx.AsyncClient(base_url=url, timeout=60)
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=8)
    ended = asyncio.Semaphore(0)
    async with http, client:
        service = HttpService(http, client, "simulated")
        clients = asyncio.create_task(chaos.run(service, LOAD, progress=ended.release))
        for _ in range(LOAD.requests // 4):
            await ended.acquire()
        if role is not None:
            victims = [v for v in await service.victims() if v.role == role]
            assert chaos.strike(victims[0])
        outcome = await clients
        await chaos.recovered(service)
        return outcome


def test_clients_get_their_texts_whatever_dies(url: str) -> None:
    undisturbed = asyncio.run(run(url))
    assert (undisturbed.failed, undisturbed.retried) == (0, 0)
    for role in ROLES:
        assert asyncio.run(run(url, role)).texts == undisturbed.texts, role


def test_processes_are_killed_at_intervals(url: str) -> None:
    result = CliRunner().invoke(
        app,
        ["chaos", f"--url={url}", "--kill=target", "--requests=30", "--tokens=30", "--every-s=0.2"],
    )
    assert result.exit_code == 0, result.output
    nothing, killed = result.stdout.splitlines()[-3:-1]
    assert nothing.split()[:4] == ["nothing", "0", "0", "0"]
    assert "target" in killed and killed.split()[2:4] == ["0", "0"]


def test_somebody_elses_server_is_refused(fake_url: str) -> None:
    result = CliRunner().invoke(app, ["chaos", f"--url={fake_url}"])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert f"{fake_url}/health" in result.stderr


def test_a_lost_group_is_waited_for() -> None:
    well = {"healthy": True, "lost": {}, "suspected": []}
    answers = iter([[well, {"healthy": False, "error": "lost"}], [well, well]])

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"groups": next(answers), "ingress": {"pid": 1}})

    async def wait() -> None:
        server = httpx.MockTransport(answer)
        async with httpx.AsyncClient(base_url="http://host", transport=server) as http:
            await chaos.recovered(HttpService(http, openai.AsyncOpenAI(api_key="none"), "any"))

    asyncio.run(wait())
    assert next(answers, None) is None


def test_who_does_not_recover_is_named(fake_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos, "_RECOVERY_S", 0.1)

    async def wait() -> None:
        async with httpx.AsyncClient(base_url=fake_url) as http:
            await chaos.recovered(HttpService(http, openai.AsyncOpenAI(api_key="none"), "any"))

    with pytest.raises(LoadTestError, match=fake_url):
        asyncio.run(wait())


@pytest.mark.parametrize(
    ("arguments", "mentions"),
    [
        (["--url=http://192.0.2.1:8000"], "192.0.2.1"),
        (["--kill=cook"], "--kill cook"),
        (["--kill=node"], "--kill node"),
    ],
)
def test_what_cannot_be_done_is_one_line(arguments: list[str], mentions: str) -> None:
    result = CliRunner().invoke(app, ["chaos", *arguments])
    assert result.exit_code == 2
    assert mentions in result.stderr and result.stderr.count("\n") == 1
