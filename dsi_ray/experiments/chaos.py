"""Chaos: servers are killed, or stopped for a while, under requests that must not notice."""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dsi_ray.config import EngineConfig
from dsi_ray.experiments.online import cluster
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.engine import Engine
from dsi_ray.runtime.errors import EngineError

_POLL_S = 0.5

Disturb = Callable[[int], None]
"""What is done to the process of a server."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the clients of one run saw.

    Attributes:
        texts: The tokens of each request, in order; None where it failed.
        seconds: From the first request to the last token.
        disturbances: How many servers were killed or stopped.
    """

    texts: tuple[tuple[int, ...] | None, ...]
    seconds: float
    disturbances: int

    @property
    def failed(self) -> int:
        """How many requests failed."""
        return self.texts.count(None)

    def differing(self, undisturbed: "Outcome") -> int:
        """How many texts are not those of another run."""
        pairs = zip(self.texts, undisturbed.texts, strict=True)
        return sum(mine != others for mine, others in pairs)


def kill(pid: int) -> None:
    """A crash."""
    os.kill(pid, signal.SIGKILL)


def hang_for(seconds: float) -> Disturb:
    """Stops a process for a while. It must run inside an event loop."""

    def hang(pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        asyncio.get_running_loop().call_later(seconds, resume, pid)

    def resume(pid: int) -> None:
        # It may have been killed meanwhile.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    return hang


def study(
    config: EngineConfig,
    requests: int,
    tokens: int,
    concurrency: int,
    every_s: float,
    hang_s: float,
    seed: int = 0,
    progress: Callable[[], None] = lambda: None,
) -> list[dict[str, Any]]:
    """Three runs, a row each: nothing happens, servers are killed, servers hang for a while."""
    prompts = [[1 + number, 1] for number in range(requests)]
    disturbances: dict[str, Disturb | None] = {
        "nothing": None,
        "killed": kill,
        f"stopped for {hang_s:g} s": hang_for(hang_s),
    }
    rows: list[dict[str, Any]] = []
    outcomes: list[Outcome] = []
    restarts = 0
    with cluster(), Engine(config) as engine:
        for name, disturb in disturbances.items():
            outcome = asyncio.run(
                run(engine, prompts, tokens, concurrency, disturb, every_s, seed, progress)
            )
            outcomes.append(outcome)
            before, restarts = restarts, asyncio.run(_recovered(engine))
            rows.append(
                {
                    "servers": name,
                    "requests": requests,
                    "disturbances": outcome.disturbances,
                    "restarts": restarts - before,
                    "failed": outcome.failed,
                    "differing": outcome.differing(outcomes[0]),
                    "seconds": outcome.seconds,
                }
            )
    return rows


async def _recovered(engine: Engine) -> int:
    """Waits until all servers are back; returns how many were started again so far."""
    while True:
        groups = (await engine.status())["groups"]
        if not any(group["lost"] or group["suspected"] for group in groups):
            return sum(group["restarts"] for group in groups)
        await asyncio.sleep(_POLL_S)


async def run(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    tokens: int,
    concurrency: int,
    disturb: Disturb | None = None,
    every_s: float = 3.0,
    seed: int = 0,
    progress: Callable[[], None] = lambda: None,
) -> Outcome:
    """Decodes all prompts, ``concurrency`` at once; every so often something happens to a server.

    Args:
        engine: Decodes.
        prompts: Of the requests.
        tokens: In each text.
        concurrency: Requests at once.
        disturb: What is done to a random server; nothing if None.
        every_s: Seconds between two disturbances.
        seed: Chooses the servers.
        progress: Called at the end of each request.
    """
    params = SamplingParams(max_tokens=tokens, ignore_eos=True)
    room = asyncio.Semaphore(concurrency)

    async def text(prompt: Sequence[int]) -> tuple[int, ...] | None:
        async with room:
            try:
                chunks = [chunk async for chunk in engine.stream(prompt, params)]
            except EngineError:
                return None
            finally:
                progress()
        return tuple(token for chunk in chunks for token in chunk.tokens)

    started = time.perf_counter()
    async with _disturbed(engine, disturb, every_s, random.Random(seed)) as pids:
        texts = await asyncio.gather(*map(text, prompts))
    return Outcome(tuple(texts), time.perf_counter() - started, len(pids))


@contextlib.asynccontextmanager
async def _disturbed(
    engine: Engine, disturb: Disturb | None, every_s: float, rng: random.Random
) -> AsyncIterator[list[int]]:
    """Disturbs inside the block; gives the processes that it happened to, so far."""
    pids: list[int] = []

    async def go_on(disturb: Disturb) -> None:
        while True:
            await asyncio.sleep(every_s)
            if victims := await _processes(engine):
                pids.append(rng.choice(victims))
                # It may have ended since it answered.
                with contextlib.suppress(ProcessLookupError):
                    disturb(pids[-1])

    task = asyncio.create_task(go_on(disturb)) if disturb else None
    try:
        yield pids
    finally:
        if task is not None:
            task.cancel()


async def _processes(engine: Engine) -> list[int]:
    """Those of the servers that answer and have one of their own."""
    return [
        server["pid"]
        for group in (await engine.status())["groups"]
        for server in group["servers"]
        if server["pid"] != group["pid"]
    ]
