"""Chaos: servers, or whole nodes, are killed or stopped under requests that must not notice."""

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
from dsi_ray.experiments.processes import kill_node, node_of
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine
from dsi_ray.runtime.errors import EngineError
from dsi_ray.runtime.ray.many_nodes import many_nodes

_POLL_S = 0.5
_NODES = [{"num_cpus": 1}] * 3
_NODE_EVERY_S = 30.0
"""Ray takes 15 s to miss a node. If another dies meanwhile, Ray 2.60 fails to move the first one's
bundles there, and then ends all actors of the placement group, the coordinator too."""

Status = dict[str, Any]
"""Of a group."""


def servers(group: Status) -> list[int]:
    """The servers that answer and have a process of their own."""
    return [server["pid"] for server in group["servers"] if server["pid"] != group["pid"]]


def servers_elsewhere(group: Status) -> list[int]:
    """The servers on other nodes than their coordinator's, without which there is no group."""
    home = node_of(group["pid"])
    return [pid for pid in servers(group) if node_of(pid) != home]


@dataclass(frozen=True, slots=True)
class Chaos:
    """What happens to whom.

    Attributes:
        strike: What is done to the process of a server.
        every_s: Seconds between two strikes.
        victims: Those of a group's processes that it may happen to.
        seed: Chooses one of them.
    """

    strike: Callable[[int], None]
    every_s: float = 3.0
    victims: Callable[[Status], list[int]] = servers
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ChaosOutcome:
    """What the clients of one run saw.

    Attributes:
        texts: The tokens of each request, in order; None where it failed.
        seconds: From the first request to the last token.
        disturbances: How often something was killed or stopped.
    """

    texts: tuple[tuple[int, ...] | None, ...]
    seconds: float
    disturbances: int

    @property
    def failed(self) -> int:
        """How many requests failed."""
        return self.texts.count(None)

    def differing(self, undisturbed: "ChaosOutcome") -> int:
        """How many texts are not those of another run."""
        pairs = zip(self.texts, undisturbed.texts, strict=True)
        return sum(mine != others for mine, others in pairs)


def kill(pid: int) -> None:
    """A crash."""
    os.kill(pid, signal.SIGKILL)


def hang_for(seconds: float) -> Callable[[int], None]:
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
    """A run, and a row, for each: nothing happens, servers die or hang, their nodes die.

    The nodes of the last row are killed until only the coordinator's is left.
    """
    prompts = [[1 + number, 1] for number in range(requests)]
    kinds: dict[str, Chaos | None] = {
        "left alone": None,
        "killed": Chaos(kill, every_s, seed=seed),
        f"stopped for {hang_s:g} s": Chaos(hang_for(hang_s), every_s, seed=seed),
        "killed with its node": Chaos(
            kill_node, max(every_s, _NODE_EVERY_S), servers_elsewhere, seed
        ),
    }
    rows: list[dict[str, Any]] = []
    outcomes: list[ChaosOutcome] = []
    restarts = 0
    with many_nodes(*_NODES), Engine(config) as engine:
        for name, chaos in kinds.items():
            outcome = asyncio.run(run(engine, prompts, tokens, concurrency, chaos, progress))
            outcomes.append(outcome)
            before, restarts = restarts, asyncio.run(_recovered(engine))
            rows.append(
                {
                    "server": name,
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
        if not any(group.get("error") or group["lost"] or group["suspected"] for group in groups):
            return sum(group["restarts"] for group in groups)
        await asyncio.sleep(_POLL_S)


async def run(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    tokens: int,
    concurrency: int,
    chaos: Chaos | None = None,
    progress: Callable[[], None] = lambda: None,
) -> ChaosOutcome:
    """Decodes all prompts, ``concurrency`` at once, while something happens to the servers.

    Args:
        engine: Decodes.
        prompts: Of the requests.
        tokens: In each text.
        concurrency: Requests at once.
        chaos: What happens; nothing if None.
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
    async with _disturbed(engine, chaos) as pids:
        texts = await asyncio.gather(*map(text, prompts))
    return ChaosOutcome(tuple(texts), time.perf_counter() - started, len(pids))


@contextlib.asynccontextmanager
async def _disturbed(engine: Engine, chaos: Chaos | None) -> AsyncIterator[list[int]]:
    """Disturbs inside the block; gives the processes that it happened to, so far."""
    pids: list[int] = []

    async def go_on(chaos: Chaos) -> None:
        rng = random.Random(chaos.seed)
        while True:
            await asyncio.sleep(chaos.every_s)
            # One may have ended since it answered.
            with contextlib.suppress(ProcessLookupError):
                groups = (await engine.status())["groups"]
                if victims := [pid for group in groups for pid in chaos.victims(group)]:
                    pids.append(rng.choice(victims))
                    chaos.strike(pids[-1])

    task = asyncio.create_task(go_on(chaos)) if chaos else None
    try:
        yield pids
    finally:
        if task is not None:
            task.cancel()
