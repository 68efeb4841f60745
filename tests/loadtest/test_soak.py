"""The soak's parts: its mixture, what it finds left, and the whole command before a fake server."""

import asyncio
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from loadtest import soak
from loadtest.cli import app
from loadtest.errors import LoadTestError
from loadtest.request import Request

IDLE: dict[str, Any] = {
    "load": {"generations": 0, "clients": 0},
    "groups": [
        {
            "healthy": True,
            "requests": 0,
            "tasks": 0,
            "servers": [{"server": "target-0", "running_tasks": 0, "cache": {"sessions": 0}}],
        }
    ],
}


def test_the_mixture_has_everything_and_is_the_same_for_a_seed() -> None:
    visits = soak.Mix(count=600, aborted=1 / 3, seed=1).visits("demo")
    assert (
        visits == soak.Mix(600, 1 / 3, 1).visits("demo") != soak.Mix(600, 1 / 3, 2).visits("demo")
    )
    bodies = [visit.request.body for visit in visits]
    seen = {
        (visit.request.path, visit.request.body["stream"], visit.request.body["n"])
        for visit in visits
    }
    assert len(seen) == 2 * 2 * 3
    assert {body["max_tokens"] for body in bodies} == {1, 4, 16, 64, 256}
    for guide in ("guided_regex", "guided_choice", "response_format"):
        assert any(guide in body for body in bodies)
    patience = [visit.leaves_s for visit in visits if visit.leaves_s is not None]
    assert 150 < len(patience) < 250
    assert 0 <= min(patience) < 0.05 and 0.35 < max(patience) <= soak.PATIENCE_S


def changed(*path: str | int, value: Any) -> dict[str, Any]:
    """A status that is idle but for one thing."""

    def change(old: Any, path: tuple[str | int, ...]) -> Any:
        if not path:
            return value
        items = old.items() if isinstance(old, dict) else enumerate(old)
        new = {key: change(item, path[1:]) if key == path[0] else item for key, item in items}
        return new if isinstance(old, dict) else list(new.values())

    status: dict[str, Any] = change(IDLE, path)
    return status


@pytest.mark.parametrize(
    ("path", "what"),
    [
        (("load", "generations"), "2 generations at the gate"),
        (("load", "clients"), "2 clients at the gate"),
        (("groups", 0, "requests"), "2 requests in group 0"),
        (("groups", 0, "tasks"), "2 tasks in group 0"),
        (("groups", 0, "servers", 0, "running_tasks"), "2 running tasks on target-0 of group 0"),
        (("groups", 0, "servers", 0, "cache", "sessions"), "2 sessions on target-0 of group 0"),
    ],
)
def test_what_is_left_is_named(path: tuple[str | int, ...], what: str) -> None:
    assert list(soak.leftovers(changed(*path, value=2))) == [what]


def test_an_idle_server_has_nothing_and_a_lost_group_is_no_idle_one() -> None:
    assert list(soak.leftovers(IDLE)) == []
    lost = {"healthy": False, "error": "the coordinator was lost"}
    assert list(soak.leftovers(changed("groups", 0, value=lost))) == ["group 0 is lost"]


def check(statuses: list[dict[str, Any]], metrics: str = "") -> None:
    """Looks at a server that says this, and in the end the last again and again."""
    answers = itertools.chain(statuses, itertools.repeat(statuses[-1]))

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/metrics":
            return httpx.Response(200, text=metrics)
        return httpx.Response(200, json=next(answers))

    async def wait() -> None:
        server = httpx.MockTransport(answer)
        async with httpx.AsyncClient(base_url="http://host", transport=server) as http:
            await soak.check_idle(http)

    asyncio.run(wait())


def test_what_ends_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "_POLL_S", 0.0)
    check([changed("groups", 0, "tasks", value=1), IDLE])


@pytest.mark.parametrize(
    ("status", "metrics", "what"),
    [
        (changed("groups", 0, "tasks", value=1), "", "1 tasks in group 0"),
        (IDLE, "dsi_ray_queued_requests 3\n", "3 dsi_ray_queued_requests"),
        ({}, "", "no answers at http://host/health"),
    ],
)
def test_what_stays_is_an_error(
    monkeypatch: pytest.MonkeyPatch, status: dict[str, Any], metrics: str, what: str
) -> None:
    monkeypatch.setattr(soak, "_SETTLE_S", 0.0)
    with pytest.raises(LoadTestError, match=what):
        check([status], metrics)


def test_tracebacks_are_counted_in_all_files(tmp_path: Path) -> None:
    (tmp_path / "serve").mkdir()
    (tmp_path / "raylet.out").write_text("all is well\n")
    (tmp_path / "serve" / "replica.log").write_text("Traceback (most recent call last):\n" * 2)
    assert soak.tracebacks(tmp_path) == Counter({str(Path("serve", "replica.log")): 2})
    assert soak.tracebacks(None) == Counter()


def visit(prompt: str, *, stream: bool, leaves_s: float | None = None) -> soak.Visit:
    """One whose prompt says how it goes."""
    return soak.Visit(Request(0, "/", {"prompt": prompt, "stream": stream}), leaves_s)


@pytest.mark.parametrize("stream", [True, False])
def test_endings_are_counted(stream: bool) -> None:
    async def answer(request: httpx.Request) -> httpx.Response:
        prompt = json.loads(request.content)["prompt"]
        if prompt == "hang":
            await asyncio.Event().wait()
        return httpx.Response(503 if prompt == "busy" else 200, text="data: [DONE]")

    async def scenario() -> soak.Counts:
        visits = [visit(prompt, stream=stream) for prompt in ("fine", "busy")]
        visits.append(visit("hang", stream=stream, leaves_s=0.001))
        server = httpx.MockTransport(answer)
        async with httpx.AsyncClient(base_url="http://host", transport=server) as http:
            return await soak.run(http, visits, concurrency=2, seconds=0.1)

    endings = asyncio.run(scenario())
    assert endings.keys() == {soak.ANSWERED, soak.GIVEN_UP, "http_503"}
    # All are made before the first is made again.
    assert max(endings.values()) - min(endings.values()) <= 2


def test_somebody_elses_server_is_one_line(fake_url: str) -> None:
    result = CliRunner().invoke(app, ["soak", f"--url={fake_url}", "--requests=3", "--seconds=0"])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert f"{fake_url}/health" in result.stderr
