"""Chaos: a dsi-ray server's processes are killed while the openai client asks it things."""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from loadtest.clock import Clock
from loadtest.errors import LoadTestError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

ROLES = ("drafter", "target", "ingress", "coordinator")
"""Whose processes ``/health`` names."""

_HEALTH_S = 5.0
_RECOVERY_S = 120.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the clients of one run saw.

    Attributes:
        texts: Of each request, in order; None where it failed, however often it was tried.
        retried: Requests that the client had to send more than once.
        kills: Processes killed, by role.
        seconds: From the first request to the last text.
    """

    texts: tuple[str | None, ...]
    retried: int
    kills: Mapping[str, int]
    seconds: float

    @property
    def failed(self) -> int:
        """Requests without a text."""
        return self.texts.count(None)

    def differing(self, undisturbed: "Outcome") -> int:
        """Texts that are not those of another run."""
        pairs = zip(self.texts, undisturbed.texts, strict=True)
        return sum(mine not in (None, other) for mine, other in pairs)


async def run(
    http: httpx.AsyncClient,
    client: "AsyncOpenAI",
    model: str,
    requests: int,
    tokens: int,
    concurrency: int,
    kill: Collection[str] = (),
    every_s: float = 3.0,
    seed: int = 0,
    progress: Callable[[], None] = lambda: None,
) -> Outcome:
    """Sends different prompts; every so often a random process of the server is killed.

    Args:
        http: Of the server, on this machine.
        client: Sends the requests, and sends those again that failed.
        model: What the server calls it.
        requests: How many.
        tokens: In each text.
        concurrency: Requests at once.
        kill: Roles of the processes that may be killed.
        every_s: Seconds between two kills.
        seed: Chooses the processes.
        progress: Called at the end of each request.
    """
    from openai import APIError

    room = asyncio.Semaphore(concurrency)
    retried = 0

    async def text(number: int) -> str | None:
        nonlocal retried
        async with room:
            try:
                answer = await client.completions.with_raw_response.create(
                    model=model,
                    # Token ids, as every tokenizer has them.
                    prompt=[1 + number, 1],
                    max_tokens=tokens,
                    temperature=0,
                    extra_body={"ignore_eos": True},
                )
            except APIError:
                return None
            finally:
                progress()
            retried += answer.retries_taken > 0
            return answer.parse().choices[0].text

    started = time.perf_counter()
    async with _disturbed(http, kill, every_s, random.Random(seed)) as kills:
        texts = await asyncio.gather(*map(text, range(requests)))
    return Outcome(tuple(texts), retried, kills, time.perf_counter() - started)


def openai_client(http: httpx.AsyncClient, api_key: str | None, retries: int) -> "AsyncOpenAI":
    """The client that people use. No other part of the load test needs its package.

    Raises:
        LoadTestError: It is not installed.
    """
    try:
        from openai import AsyncOpenAI
    except ImportError:
        raise LoadTestError("chaos needs the openai client: pip install openai") from None
    url = str(http.base_url.join("v1"))
    return AsyncOpenAI(base_url=url, api_key=api_key or "none", max_retries=retries)


def check_local(http: httpx.AsyncClient) -> None:
    """Makes sure that the server's processes are those of this machine.

    Raises:
        LoadTestError: They are not.
    """
    if http.base_url.host not in _LOOPBACK:
        raise LoadTestError(
            f"{http.base_url}: processes can be killed on this machine only: serve on 127.0.0.1"
        )


async def check_names_processes(http: httpx.AsyncClient) -> None:
    """Makes sure that the server says which processes it has.

    Raises:
        LoadTestError: It does not.
    """
    if not await processes(http, ROLES):
        url = http.base_url.join("health")
        raise LoadTestError(f"{url} names no processes: is that a healthy dsi-ray server?")


async def recovered(http: httpx.AsyncClient) -> None:
    """Waits until every group has all its servers.

    Raises:
        LoadTestError: That takes too long.
    """
    clock = Clock()
    while clock.now() < _RECOVERY_S:
        with contextlib.suppress(httpx.HTTPError):
            answer = await http.get("/health", timeout=_HEALTH_S)
            groups = answer.json()["groups"] if answer.status_code == 200 else []
            if groups and all(map(_is_whole, groups)):
                return
        await asyncio.sleep(_HEALTH_S / 10)
    raise LoadTestError(
        f"{http.base_url} has not all its servers {_RECOVERY_S:g} s after the last request: "
        "dsi-ray status says which are missing, the log why"
    )


def _is_whole(group: Mapping[str, Any]) -> bool:
    # Of a group that is lost there is nothing else to say.
    return group["healthy"] and not (group["lost"] or group["suspected"])


@contextlib.asynccontextmanager
async def _disturbed(
    http: httpx.AsyncClient, kill: Collection[str], every_s: float, rng: random.Random
) -> AsyncIterator[Mapping[str, int]]:
    """Kills inside the block; gives how many processes it has killed so far, by role."""
    kills: Counter[str] = Counter()

    async def go_on() -> None:
        while True:
            await asyncio.sleep(every_s)
            victims = await processes(http, kill)
            if victims:
                role, pid = rng.choice(victims)
                # It may have ended since the server named it.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    kills[role] += 1

    task = asyncio.create_task(go_on()) if kill else None
    try:
        yield kills
    finally:
        if task is not None:
            task.cancel()


async def processes(http: httpx.AsyncClient, roles: Collection[str]) -> list[tuple[str, int]]:
    """Role and id of the processes that the server names; of several ingresses only one."""
    try:
        health = (await http.get("/health", timeout=_HEALTH_S)).json()
        found = [("ingress", health["ingress"]["pid"])]
    except (httpx.HTTPError, ValueError, KeyError):
        # Nobody answers: what was killed last is still starting.
        return []
    for group in health["groups"]:
        if "pid" in group:
            found.append(("coordinator", group["pid"]))
            found += [
                (server["server"].partition("-")[0], server["pid"])
                for server in group["servers"]
                # A drafter may live in the coordinator's process.
                if server["pid"] != group["pid"]
            ]
    return [(role, pid) for role, pid in found if role in roles]
