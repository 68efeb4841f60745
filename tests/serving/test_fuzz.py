"""Thousands of requests, made from the server's own documentation, do no harm."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx

SECONDS = 30
CHAT = "path=/v1/chat/completions"
"""Half of the cases are for the largest schema."""

OPTIONS = [
    f"--max-time={SECONDS}",
    "--phases=coverage,fuzzing",
    "--continue-on-failure",
    "--request-timeout=30",
    # What fields must be to each other is more than a schema can say.
    "--exclude-checks=positive_data_acceptance",
    "--generation-database=none",
    "--seed=1",
    "--no-color",
]


def start(url: str, folder: Path, *which: str) -> "subprocess.Popen[str]":
    """Runs schemathesis; in one thread, as Python's own parser fails in several (3.11)."""
    program = str(Path(sys.executable).parent / "schemathesis")
    hooks = {"SCHEMATHESIS_HOOKS": "fuzz_hooks", "PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.Popen(
        [program, "run", f"{url}/openapi.json", "--workers=1", *which, *OPTIONS],
        env={**os.environ, **hooks},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_no_request_breaks_the_server_or_its_documentation(
    url: str, http: httpx.Client, tmp_path: Path
) -> None:
    cases = 0
    (group,) = http.get("/health").json()["groups"]
    coordinator = group["pid"]
    with (
        start(url, tmp_path, f"--include-{CHAT}") as chat,
        start(url, tmp_path, f"--exclude-{CHAT}") as rest,
    ):
        for process in (chat, rest):
            output, _ = process.communicate(timeout=240)
            assert process.returncode == 0, output
            passed = re.search(r"(\d+) generated, (\d+) passed", output)
            assert passed is not None and passed[1] == passed[2], output
            cases += int(passed[1])
    print(f"{cases} cases")
    assert cases > 200
    health = http.get("/health").json()
    assert health["status"] == "ok"
    assert [(group["lost"], group["pid"]) for group in health["groups"]] == [({}, coordinator)]
    body = {"model": "demo", "prompt": "def f(", "max_tokens": 3}
    assert http.post("/v1/completions", json=body).status_code == 200
