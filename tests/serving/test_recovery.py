"""The coordinator of a running server dies: clients hear of it, and Serve need not mend it."""

import json
import os
import signal
import time

import httpx
import ray

LONG = {
    "model": "demo",
    "prompt": "def f(",
    "temperature": 0,
    "max_tokens": 900,
    "ignore_eos": True,
}
SHORT = {**LONG, "max_tokens": 9}
DEADLINE_S = 30


def placement_groups() -> int:
    table = ray.util.placement_group_table()
    return sum(group["state"] != "REMOVED" for group in table.values())


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

    deadline = time.monotonic() + DEADLINE_S
    while (health := http.get("/health")).status_code != 200:
        assert time.monotonic() < deadline, health.text
        time.sleep(0.02)
    assert [g["rebuilds"] for g in health.json()["groups"]] == [group["rebuilds"] + 1]
    after = http.post("/v1/completions", json=SHORT).json()["choices"]
    assert after == expected
    # The very same one: Serve has not started another.
    assert http.get("/v1/models").json()["data"] == replica
    assert placement_groups() == before
