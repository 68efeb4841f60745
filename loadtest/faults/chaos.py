"""Chaos: processes of a service are killed or stopped under load, and no client may notice."""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from loadtest.clock import Clock
from loadtest.errors import LoadTestError

ROLES = ("drafter", "target", "coordinator", "ingress", "node")
"""What may be struck: the process of a server, or a whole Ray node without a coordinator."""

_RECOVERY_S = 120.0
_POLL_S = 0.5

Group = Mapping[str, Any]
"""What ``/health`` and ``Engine.status`` say of a group."""


@dataclass(frozen=True, slots=True)
class Victim:
    """What dies or hangs at once: a process, or all processes of a node."""

    role: str
    pids: tuple[int, ...]


class Service(Protocol):
    """What is put under load."""

    @property
    def name(self) -> str:
        """What messages call it."""

    async def text(self, number: int, tokens: int) -> tuple[Hashable | None, bool]:
        """The text of a request, None if it failed; and whether it had to be sent again."""

    async def groups(self) -> Sequence[Group]:
        """The status of each group; empty while nobody answers."""

    async def victims(self) -> Sequence[Victim]:
        """All that could be struck now."""


@dataclass(frozen=True, slots=True)
class Load:
    """Different requests, greedy, each of so many tokens."""

    requests: int
    tokens: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class Faults:
    """What happens to whom.

    Attributes:
        roles: Of the victims.
        every_s: Seconds between two strikes.
        stop_s: Seconds for which a victim is stopped; it is killed if None.
        seed: Chooses the victims.
    """

    roles: Collection[str]
    every_s: float = 3.0
    stop_s: float | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the clients of one run saw.

    Attributes:
        texts: Of each request, in order; None where it failed, however often it was tried.
        retried: Requests that were sent more than once.
        strikes: How often something was killed or stopped, by role.
        seconds: From the first request to the last text.
    """

    texts: tuple[Hashable | None, ...]
    retried: int
    strikes: Mapping[str, int]
    seconds: float

    @property
    def failed(self) -> int:
        """Requests without a text."""
        return self.texts.count(None)

    def differing(self, undisturbed: "Outcome") -> int:
        """Texts that are not those of another run."""
        pairs = zip(self.texts, undisturbed.texts, strict=True)
        return sum(mine not in (None, other) for mine, other in pairs)


def prompt(number: int) -> list[int]:
    """The token ids of a request's prompt, which every tokenizer has."""
    return [1 + number, 1]


async def run(
    service: Service,
    load: Load,
    faults: Faults | None = None,
    progress: Callable[[], None] = lambda: None,
) -> Outcome:
    """Sends all requests; every so often something is struck.

    Args:
        service: Gets them.
        load: The requests.
        faults: What is struck; nothing if None.
        progress: Called at the end of each request.
    """
    room = asyncio.Semaphore(load.concurrency)

    async def text(number: int) -> tuple[Hashable | None, bool]:
        async with room:
            answer = await service.text(number, load.tokens)
            progress()
            return answer

    started = time.perf_counter()
    async with _disturbed(service, faults) as strikes:
        answers = await asyncio.gather(*map(text, range(load.requests)))
    texts = tuple(text for text, _ in answers)
    retried = sum(again for _, again in answers)
    return Outcome(texts, retried, strikes, time.perf_counter() - started)


@contextlib.asynccontextmanager
async def _disturbed(service: Service, faults: Faults | None) -> AsyncIterator[Mapping[str, int]]:
    """Strikes inside the block; gives how often so far, by role."""
    strikes: Counter[str] = Counter()

    async def go_on(faults: Faults) -> None:
        rng = random.Random(faults.seed)
        while True:
            await asyncio.sleep(faults.every_s)
            victims = [v for v in await service.victims() if v.role in faults.roles]
            if victims:
                victim = rng.choice(victims)
                strikes[victim.role] += strike(victim, faults.stop_s)

    task = asyncio.create_task(go_on(faults)) if faults else None
    try:
        yield strikes
    finally:
        if task is not None:
            task.cancel()


def strike(victim: Victim, stop_s: float | None = None) -> bool:
    """Kills a victim, or stops it for a while: then it must run in an event loop, which goes on
    for as long. Returns whether there was anything left to strike."""
    struck = _send(victim.pids, signal.SIGKILL if stop_s is None else signal.SIGSTOP)
    if struck and stop_s is not None:
        asyncio.get_running_loop().call_later(stop_s, _send, victim.pids, signal.SIGCONT)
    return struck


def _send(pids: Sequence[int], number: signal.Signals) -> bool:
    sent = False
    for pid in pids:
        # It may have ended since it was named.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            sent = True
    return sent


async def recovered(service: Service) -> None:
    """Waits until every group has all its servers.

    Raises:
        LoadTestError: That takes too long.
    """
    clock = Clock()
    while clock.now() < _RECOVERY_S:
        groups = await service.groups()
        if groups and all(map(_is_whole, groups)):
            return
        await asyncio.sleep(_POLL_S)
    raise LoadTestError(
        f"{service.name} has not all its servers {_RECOVERY_S:g} s after the last request: "
        "dsi-ray status says which are missing, the log why"
    )


def _is_whole(group: Group) -> bool:
    # Of a group that is lost there is nothing else to say.
    return group["healthy"] and not (group["lost"] or group["suspected"])


def processes(groups: Sequence[Group]) -> list[Victim]:
    """The coordinator and the servers of each group that have a process of their own."""
    found: list[Victim] = []
    for group in groups:
        if "pid" in group:
            found.append(Victim("coordinator", (group["pid"],)))
            found += [
                Victim(server["server"].partition("-")[0], (server["pid"],))
                for server in group["servers"]
                # A drafter may live in the coordinator's process.
                if server["pid"] != group["pid"]
            ]
    return found
