"""What the documents show of HTTP and Python works, on the demo pair."""

import httpx
import pytest

from tests.readme import DOCUMENTS, README, blocks, curls


def test_requests_are_answered(url: str) -> None:
    for document in DOCUMENTS:
        for path, _, body in curls(document):
            if body is None:
                answer = httpx.get(f"{url}{path}", timeout=60)
            else:
                answer = httpx.post(f"{url}{path}", json={**body, "model": "demo"}, timeout=60)
                assert answer.text.endswith("data: [DONE]\n\n") == bool(body.get("stream"))
            assert answer.status_code == 200


def test_the_readmes_python_runs(ray_cluster: None, capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks(README, "python"):
        exec(compile(block, README.name, "exec"), {})
        assert capsys.readouterr().out
