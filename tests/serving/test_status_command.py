"""``dsi-ray status`` of a real server."""

import json

import httpx
import pytest
from typer.testing import CliRunner

from dsi_ray.cli import app
from dsi_ray.cli.status import growth


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["status", *arguments, "--seconds=0.1"])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_shows_servers_and_what_they_did(url: str, http: httpx.Client) -> None:
    body = {"model": "demo", "prompt": [5, 6, 7], "max_tokens": 9, "ignore_eos": True}
    assert http.post("/v1/completions", json=body).status_code == 200
    shown = run("--url", url)
    assert f"demo at {url}: ok" in shown
    for word in (
        "target-0",
        "drafter-0",
        "SP degree: 0 in use, 1 alive, 1 configured",
        "lookahead",
    ):
        assert word in shown


def test_json(url: str) -> None:
    figures = json.loads(run("--url", url, "--json"))
    (group,) = figures["groups"]
    assert group["busy_share"].keys() == {"target-0", "drafter-0"}
    assert group["sp_utilisation"] == 0
    assert group["acceptance"] is None
    assert figures["load"]["queued_requests"] == 0


def test_shares_are_of_the_time_that_passed() -> None:
    before = {
        ("dsi_ray_target_servers", ""): 2.0,
        ("dsi_ray_server_busy_seconds_total", "target-0"): 10.0,
        ("dsi_ray_server_busy_seconds_total", "target-1"): 99.0,
        ("dsi_ray_target_busy_seconds_total", "unused"): 4.0,
        ("dsi_ray_accepted_tokens_total", ""): 7.0,
        ("dsi_ray_rejected_tokens_total", ""): 7.0,
        ("dsi_ray_committed_tokens_total", ""): 0.0,
    }
    after = {
        **before,
        ("dsi_ray_server_busy_seconds_total", "target-0"): 12.0,
        # It was started again meanwhile.
        ("dsi_ray_server_busy_seconds_total", "target-1"): 1.0,
        ("dsi_ray_target_busy_seconds_total", "accepted"): 1.0,
        ("dsi_ray_target_busy_seconds_total", "unused"): 5.0,
        ("dsi_ray_accepted_tokens_total", ""): 10.0,
        ("dsi_ray_rejected_tokens_total", ""): 8.0,
        ("dsi_ray_committed_tokens_total", ""): 8.0,
    }
    assert growth(before, after, 4.0) == {
        "busy_share": {"target-0": 0.5, "target-1": 0.0},
        "sp_utilisation": 0.25,
        "useful_sp_utilisation": 0.125,
        "acceptance": 0.75,
        "tokens_per_s": 2.0,
    }
    assert growth({}, {}, 1.0)["sp_utilisation"] is None


def test_no_proxy_stands_before_the_loopback(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://192.0.2.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert json.loads(run("--url", url, "--json"))["status"] == "ok"
