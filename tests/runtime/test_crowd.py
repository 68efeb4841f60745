"""Many requests at once on Ray: each gets its own text, messages are shared, nothing is left."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from dsi_ray.config import Algorithm, EngineConfig
from dsi_ray.experiments.bench.concurrency import CrowdWork, measure, mixed
from dsi_ray.experiments.bench.prompts import held_out_code
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine
from dsi_ray.runtime.request import Decoding

from .test_requests import is_idle, wait_until


@pytest.fixture(scope="module")
def engine(ray_cluster: None) -> Iterator[Engine]:
    """The demo pair with two target servers."""
    with Engine(EngineConfig(sp_degree=2)) as engine:
        yield engine


@pytest.fixture(scope="module")
def works(engine: Engine) -> list[CrowdWork]:
    """Requests of mixed lengths."""
    return mixed([engine.tokenizer.encode(text) for text in held_out_code(16)], max_tokens=24)


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_each_of_many_gets_what_it_gets_alone(
    engine: Engine, works: list[CrowdWork], algorithm: Algorithm
) -> None:
    rows = measure(engine, works, (1, 4, 16), Decoding(algorithm, sp_degree=2))
    assert all(row.identical_tokens for row in rows)
    messages = [row.messages_per_token for row in rows]
    assert messages == sorted(messages, reverse=True)
    assert messages[-1] < messages[0] / 2


def is_empty(status: dict[str, Any]) -> bool:
    """Whether no request has work, and no server holds a block for any."""
    caches = [server["cache"] for server in status["servers"]]
    return is_idle(status) and not any(cache["sessions"] or cache["bytes"] for cache in caches)


def test_nothing_is_left_of_many(engine: Engine, works: list[CrowdWork]) -> None:
    status = wait_until(engine, is_empty)
    assert not status["lost"]
    assert len(status["servers"]) == 3


def test_clients_that_go_away_leave_nothing(engine: Engine, works: list[CrowdWork]) -> None:
    async def read_one_chunk(work: CrowdWork) -> None:
        stream = engine.stream(work.prompt, SamplingParams(max_tokens=500, ignore_eos=True))
        async for _ in stream:
            await stream.aclose()

    async def all_at_once() -> None:
        await asyncio.gather(*map(read_one_chunk, works))

    asyncio.run(all_at_once())
    assert wait_until(engine, is_empty)["healthy"]
