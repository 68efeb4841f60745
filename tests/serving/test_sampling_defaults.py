"""What a checkpoint recommends reaches the requests that leave it out, over HTTP and in Python."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from dsi_ray.config import Algorithm
from dsi_ray.demo import TARGET_DIR
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine
from dsi_ray.serving.config import ServingConfig

from .conftest import Api


@pytest.fixture(scope="module")
def advised(ray_cluster: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The demo target, which recommends the likeliest of all tokens at any temperature."""
    folder = tmp_path_factory.mktemp("advised")
    shutil.copytree(TARGET_DIR, folder, dirs_exist_ok=True)
    (folder / "generation_config.json").write_text(json.dumps({"temperature": 1.5, "top_k": 1}))
    with Engine(ServingConfig(target=str(folder), algorithm=Algorithm.NON_SI)) as engine:
        yield engine


def test_in_python(advised: Engine) -> None:
    assert advised.generate("def main(").stats.seed is not None, "it was sampled"
    assert advised.generate("def main(", SamplingParams()).stats.seed is None


def test_over_http(advised: Engine, api: Api) -> None:
    body = {"model": "demo", "prompt": "def main(", "max_tokens": 12}

    async def ask(**more: float) -> dict[str, Any]:
        async with api(advised) as client:
            answer = await client.post("/v1/completions", json={**body, **more})
        return answer.json()["choices"][0]

    plain, hot = asyncio.run(ask(seed=1)), asyncio.run(ask(seed=1, top_k=0))
    greedy = asyncio.run(ask(temperature=0))
    assert plain["text"] == greedy["text"] != hot["text"]
    assert (plain["seed"], "seed" in greedy) == (1, False)
