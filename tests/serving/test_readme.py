"""What the README shows of HTTP and Python works, on the demo pair."""

import httpx
import pytest

from tests.readme import README, blocks, curls


def test_its_requests_are_answered(url: str) -> None:
    for path, _, body in curls():
        answer = httpx.post(f"{url}{path}", json={**body, "model": "demo"}, timeout=60)
        assert answer.status_code == 200
        assert answer.text.endswith("data: [DONE]\n\n") == bool(body.get("stream"))


def test_its_python_runs(ray_cluster: None, capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks(README, "python"):
        exec(compile(block, README.name, "exec"), {})
        assert capsys.readouterr().out
