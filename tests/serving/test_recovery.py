"""The coordinator of a running server dies, or the host of its groups: clients hear of it."""

import json
import os
import signal
import time
from typing import Any

import httpx
import ray

from tests.cli.conftest import titles

LONG = {
    "model": "demo",
    "prompt": "def f(",
    "temperature": 0,
    "max_tokens": 900,
    "ignore_eos": True,
}
SHORT = {**LONG, "max_tokens": 9}
DEADLINE_S = 30
HOST = "ray::ServeReplica:dsi-ray:Groups"


def placement_groups() -> int:
    table = ray.util.placement_group_table()
    return sum(group["state"] != "REMOVED" for group in table.values())


def until_healthy(http: httpx.Client) -> dict[str, Any]:
    """Polls until some group serves."""
    deadline = time.monotonic() + DEADLINE_S
    while (health := http.get("/health")).status_code != 200:
        assert time.monotonic() < deadline, health.text
        time.sleep(0.02)
    body: dict[str, Any] = health.json()
    return body


def host() -> int:
    """The process of the deployment that hosts the groups."""
    (pid,) = (pid for pid, title in titles(os.getpid()).items() if title.startswith(HOST))
    return pid


def test_the_replica_outlives_its_coordinator(http: httpx.Client, url: str) -> None:
    before = placement_groups()
    replica = http.get("/v1/models").json()["data"]
    (group,) = http.get("/health").json()["groups"]
    expected = http.post("/v1/completions", json=SHORT).json()["choices"]

    with httpx.stream("POST", f"{url}/v1/completions", json={**LONG, "stream": True}) as stream:
        next(lines := stream.iter_lines())
        os.kill(group["pid"], signal.SIGKILL)
        *_, last = filter(None, lines)
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "unavailable"

    health = until_healthy(http)
    assert [g["rebuilds"] for g in health["groups"]] == [group["rebuilds"] + 1]
    after = http.post("/v1/completions", json=SHORT).json()["choices"]
    assert after == expected
    # The very same one: Serve has not started another.
    assert http.get("/v1/models").json()["data"] == replica
    assert placement_groups() == before


def test_the_ingress_outlives_the_host_of_its_groups(http: httpx.Client) -> None:
    before = placement_groups()
    first = until_healthy(http)
    expected = http.post("/v1/completions", json=SHORT).json()["choices"]
    os.kill(host(), signal.SIGKILL)
    deadline = time.monotonic() + DEADLINE_S
    while (health := until_healthy(http))["groups"][0]["pid"] == first["groups"][0]["pid"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert health["ingress"] == first["ingress"]
    assert http.post("/v1/completions", json=SHORT).json()["choices"] == expected
    while placement_groups() != before:
        assert time.monotonic() < deadline
        time.sleep(0.02)
