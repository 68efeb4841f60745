"""Requests on real Ray: abandoned ones, failing ones, wrong ones, and servers that die."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import ray
import torch

from dsi_ray.config import Algorithm, EngineConfig
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine
from dsi_ray.runtime.errors import RequestError
from dsi_ray.runtime.request import Decoding

from .conftest import VOCAB, random_model

TARGET = "simulated:tpot_ms=5"
DRAFTER = "simulated:tpot_ms=1,acceptance_rate=0.8"
FOREVER = SamplingParams(max_tokens=100_000)


def new_engine(**settings: Any) -> Engine:
    defaults = {"target": TARGET, "drafters": [DRAFTER, "lookup"], "sp_degree": 3}
    return Engine(EngineConfig.model_validate({**defaults, **settings}))


@pytest.fixture(scope="module", params=["lanes", "calls"])
def engine(request: pytest.FixtureRequest, ray_cluster: None) -> Iterator[Engine]:
    with new_engine(transport=request.param) as engine:
        yield engine


def status_of(engine: Engine) -> dict[str, Any]:
    """What the only group does."""
    group: dict[str, Any]
    (group,) = asyncio.run(engine.status())["groups"]
    return group


def wait_until(engine: Engine, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Polls the group's status; fails if ``holds`` does not come true."""
    deadline = time.monotonic() + 20
    while not holds(status := status_of(engine)):
        assert time.monotonic() < deadline, status
    return status


def is_idle(status: dict[str, Any]) -> bool:
    busy = sum(server["running_tasks"] for server in status["servers"])
    return not (busy or status["requests"] or status["tasks"])


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_closing_the_stream_ends_the_request_everywhere(
    engine: Engine, algorithm: Algorithm
) -> None:
    async def read_some() -> None:
        async with aclosing(engine.stream([1, 2], FOREVER, Decoding(algorithm, 4, 3))) as chunks:
            async for _ in chunks:
                return

    asyncio.run(read_some())
    status = wait_until(engine, is_idle)
    assert len(status["servers"]) == 5


def test_cancelling_the_reader_ends_the_request_everywhere(engine: Engine) -> None:
    async def read_until_cancelled() -> None:
        started = asyncio.Event()

        async def read() -> None:
            async for _ in engine.stream([1, 2], FOREVER):
                started.set()

        reader = asyncio.create_task(read())
        await started.wait()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader

    asyncio.run(read_until_cancelled())
    wait_until(engine, is_idle)


def test_requests_at_the_same_time_do_not_disturb_each_other(engine: Engine) -> None:
    params = SamplingParams(max_tokens=40)
    prompts = [[i] * i for i in range(1, 7)]
    alone = [engine.generate(prompt, params).tokens for prompt in prompts]

    async def gather() -> list[tuple[int, ...]]:
        async def tokens(prompt: list[int]) -> tuple[int, ...]:
            return tuple([t async for chunk in engine.stream(prompt, params) for t in chunk.tokens])

        return await asyncio.gather(*map(tokens, prompts))

    assert asyncio.run(gather()) == alone
    wait_until(engine, is_idle)


def test_stop_string_ends_the_text_and_the_usage(engine: Engine) -> None:
    free = engine.generate([1], SamplingParams(max_tokens=30))
    third = engine.tokenizer.decode(free.tokens[2:3])
    cut = engine.generate([1], SamplingParams(max_tokens=30, stop=(third,)))
    assert cut.text == engine.tokenizer.decode(free.tokens[:2])
    assert cut.tokens == free.tokens[:3]
    assert cut.finish_reason == "stop"
    assert cut.stats.completion_tokens == 3
    wait_until(engine, is_idle)


@pytest.mark.parametrize(
    ("prompt", "params", "param"),
    [
        ([], SamplingParams(), "prompt"),
        ([-1], SamplingParams(max_tokens=1), "prompt"),
        ([VOCAB], SamplingParams(max_tokens=1), "prompt"),
        ([1] * 64, SamplingParams(max_tokens=1), "prompt"),
        ([1], SamplingParams(max_tokens=64), "max_tokens"),
    ],
)
def test_wrong_request_names_the_field(
    ray_cluster: None,
    small_context: Engine,
    prompt: list[int],
    params: SamplingParams,
    param: str,
) -> None:
    with pytest.raises(RequestError) as error:
        small_context.generate(prompt, params)
    assert error.value.param == param
    assert small_context.generate([1], SamplingParams(max_tokens=2)).stats.completion_tokens == 2


@pytest.fixture(scope="module")
def small_context(ray_cluster: None) -> Iterator[Engine]:
    target = f"{TARGET},vocab_size={VOCAB}"
    with new_engine(target=target, drafters=["lookup"], sp_degree=1, max_model_len=64) as engine:
        yield engine


def test_failing_drafter_costs_speed_only(
    ray_cluster: None, model_folder: Path, tmp_path: Path
) -> None:
    """The drafter knows fewer ids than the target: its forward fails on the first of the others."""
    target = model_folder / "target"
    small = random_model(seed=1, layers=1)
    small.resize_token_embeddings(VOCAB // 2)
    torch.nn.init.constant_(small.get_input_embeddings().weight, 0.1)
    small.save_pretrained(tmp_path)
    for file in target.glob("tokenizer*"):
        shutil.copy(file, tmp_path)
    settings = {"target": str(target), "drafters": [str(tmp_path)], "sp_degree": 1}
    with new_engine(**settings) as engine:
        for prompt in ([1], [1, 2, 3], [VOCAB - 1]):
            params = SamplingParams(max_tokens=30)
            plain, si, dsi = (
                engine.generate(prompt, params, Decoding(algorithm)).tokens
                for algorithm in (Algorithm.NON_SI, Algorithm.SI, Algorithm.DSI)
            )
            assert plain == si == dsi
        wait_until(engine, is_idle)


@pytest.mark.parametrize("victim", ["drafter-0", "target-0"])
@pytest.mark.parametrize("algorithm", [Algorithm.DSI, Algorithm.SI])
def test_the_death_of_a_server_costs_time_only(
    ray_cluster: None, algorithm: Algorithm, victim: str
) -> None:
    """Also of the only target server: another one starts in its place."""
    with new_engine(drafters=[DRAFTER], sp_degree=1, algorithm=algorithm) as engine:
        params = SamplingParams(max_tokens=200)
        expected = engine.generate([1], params).tokens
        pid = process_of(engine, victim)

        async def kill_midway() -> tuple[int, ...]:
            tokens: tuple[int, ...] = ()
            async for chunk in engine.stream([1], params):
                if not tokens:
                    os.kill(pid, signal.SIGKILL)
                tokens += chunk.tokens
            return tokens

        assert asyncio.run(kill_midway()) == expected
        status = wait_until(engine, lambda status: status["restarts"] == 1)
        assert status["healthy"]
        assert not status["lost"]
        assert process_of(engine, victim) != pid
        assert engine.generate([1], params).tokens == expected
        wait_until(engine, is_idle)


def process_of(engine: Engine, name: str) -> int:
    """The process of a server, to kill it as a crash would."""
    servers = status_of(engine)["servers"]
    (pid,) = [server["pid"] for server in servers if server["server"] == name]
    return int(pid)


def test_closing_leaves_nothing(ray_cluster: None) -> None:
    before = placement_groups()
    with new_engine():
        assert placement_groups() == before + 1
    assert placement_groups() == before


def placement_groups() -> int:
    table = ray.util.placement_group_table()
    return sum(group["state"] != "REMOVED" for group in table.values())
