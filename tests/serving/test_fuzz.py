"""Thousands of requests, made from the server's own documentation, do no harm."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx

CASES = 2000
"""Of each kind of operation at most; the time below ends it earlier on a slow machine."""

SECONDS = 60


def test_no_request_breaks_the_server_or_its_documentation(
    url: str, http: httpx.Client, tmp_path: Path
) -> None:
    command = [
        *(str(Path(sys.executable).parent / "schemathesis"), "run", f"{url}/openapi.json"),
        *("--workers=4", f"--max-time={SECONDS}", f"--max-examples={CASES}", "--seed=1"),
        *("--phases=coverage,fuzzing", "--request-timeout=30", "--continue-on-failure"),
        # What fields must be to each other is more than a schema can say.
        *("--exclude-checks=positive_data_acceptance", "--no-color", "--generation-database=none"),
    ]
    hooks = {"SCHEMATHESIS_HOOKS": "fuzz_hooks", "PYTHONPATH": str(Path(__file__).parent)}
    run = subprocess.run(
        command,
        env={**os.environ, **hooks},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    passed = re.search(r"(\d+) generated, (\d+) passed", run.stdout)
    assert passed is not None and passed[1] == passed[2], run.stdout
    assert int(passed[1]) > 100
    health = http.get("/health").json()
    assert (health["status"], health["lost"]) == ("ok", [])
    body = {"model": "demo", "prompt": "def f(", "max_tokens": 3}
    assert http.post("/v1/completions", json=body).status_code == 200
