"""Soak: mixed requests, of which many are given up; nothing of them may be left in the server."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from loadtest.client import Client
from loadtest.clock import Clock
from loadtest.errors import LoadTestError
from loadtest.prompts import Words, draw
from loadtest.request import Request
from loadtest.server import scrape

Counts = Counter[str]
"""By name."""

ANSWERED, GIVEN_UP = "answered", "given up"

PATIENCE_S = 0.4
"""The longest that a client waits who gives up."""

_TIMEOUT_S = 120.0
_SETTLE_S = 20.0
_POLL_S = 0.2
_LENGTHS = (1, 4, 16, 64, 256)
_TRACEBACK = b"Traceback (most recent call last)"
_GAUGES = tuple(
    f"dsi_ray_{name}"
    for name in (
        *("generations_in_flight", "queued_requests"),
        *("running_requests", "tasks", "kv_used_bytes"),
    )
)

_GUIDES: Sequence[dict[str, Any]] = (
    {"guided_regex": "[a-z]+( [a-z]+)*"},
    {"guided_choice": ["yes", "no", "perhaps"]},
    {"response_format": {"type": "json_object"}},
)


@dataclass(frozen=True, slots=True)
class Visit:
    """A request, and after how many seconds its client gives up, if it does."""

    request: Request
    leaves_s: float | None


@dataclass(frozen=True, slots=True)
class Mix:
    """Requests of all kinds, to chat and completions: whole and streamed, short and long, guided
    and free, with one choice and several.

    Attributes:
        count: How many.
        aborted: The share of those that are given up.
        seed: One seed makes the same requests.
    """

    count: int
    aborted: float
    seed: int

    def visits(self, model: str) -> list[Visit]:
        """All of them, to what the server calls ``model``."""
        rng = np.random.default_rng(self.seed)
        prompts = draw(Words(kind="words", words=8, shared_prefix_words=0), rng)
        return [
            Visit(_request(index, model, prompt, rng), _patience(self.aborted, rng))
            for index, prompt in zip(range(self.count), prompts, strict=False)
        ]


def _patience(aborted: float, rng: np.random.Generator) -> float | None:
    return float(rng.uniform(0, PATIENCE_S)) if rng.random() < aborted else None


def _request(index: int, model: str, prompt: str, rng: np.random.Generator) -> Request:
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": int(rng.choice(_LENGTHS)),
        "temperature": float(rng.integers(2)),
        "n": int(rng.integers(1, 4)),
        "stream": bool(rng.integers(2)),
        "seed": index,
    }
    if rng.random() < 1 / 4:
        body |= _GUIDES[int(rng.integers(len(_GUIDES)))]
    if rng.integers(2):
        return Request(index, "/v1/completions", body | {"prompt": prompt})
    messages = [{"role": "user", "content": prompt}]
    return Request(index, "/v1/chat/completions", body | {"messages": messages})


async def run(
    http: httpx.AsyncClient,
    visits: Sequence[Visit],
    concurrency: int,
    seconds: float,
    progress: Callable[[], None] = lambda: None,
) -> Counts:
    """Makes all visits, again and again until the time is over; returns how often each ending was.

    An ending is :data:`ANSWERED`, :data:`GIVEN_UP` or an error's kind, as in :class:`Record`.
    """
    clock = Clock()
    endings: Counts = Counter()
    # Begun anew only once all have been made.
    left = itertools.cycle(visits)

    async def visitor() -> None:
        while clock.now() < seconds:
            endings[await _ending(http, next(left), clock)] += 1
            progress()

    async with asyncio.TaskGroup() as visitors:
        for _ in range(concurrency):
            visitors.create_task(visitor())
    return endings


async def _ending(http: httpx.AsyncClient, visit: Visit, clock: Clock) -> str:
    answer = _streamed if visit.request.body["stream"] else _whole
    try:
        async with asyncio.timeout(visit.leaves_s):
            return await answer(http, visit.request, clock) or ANSWERED
    except TimeoutError:
        return GIVEN_UP


async def _streamed(http: httpx.AsyncClient, request: Request, clock: Clock) -> str | None:
    record = await Client(http, _TIMEOUT_S).send(request, clock.now(), clock, "soak")
    return record.error


async def _whole(http: httpx.AsyncClient, request: Request, _: Clock) -> str | None:
    try:
        answer = await http.post(request.path, json=request.body, timeout=_TIMEOUT_S)
    except httpx.TimeoutException:
        return "timeout"
    except httpx.RequestError:
        return "connection"
    return None if answer.is_success else f"http_{answer.status_code}"


def leftovers(health: Mapping[str, Any]) -> Iterator[str]:
    """What ``/health`` says that an idle server should not have."""
    counts = {f"{what} at the gate": health["load"][what] for what in ("generations", "clients")}
    for index, group in enumerate(health["groups"]):
        if not group["healthy"]:
            yield f"group {index} is lost"
            continue
        counts |= {f"{what} in group {index}": group[what] for what in ("requests", "tasks")}
        for server in group["servers"]:
            name = f"{server['server']} of group {index}"
            counts[f"running tasks on {name}"] = server["running_tasks"]
            counts[f"sessions on {name}"] = server["cache"]["sessions"]
    yield from (f"{count} {what}" for what, count in counts.items() if count)


async def check_idle(http: httpx.AsyncClient) -> None:
    """Waits until nothing is left, in ``/health`` and in ``/metrics``.

    Raises:
        LoadTestError: Something is, for too long.
    """
    clock = Clock()
    while found := await _found(http):
        if clock.now() > _SETTLE_S:
            raise LoadTestError(
                f"{_SETTLE_S:g} s after the last request there are still {', '.join(found)}"
            )
        await asyncio.sleep(_POLL_S)


async def _found(http: httpx.AsyncClient) -> list[str]:
    try:
        health = (await http.get("/health")).json()
        found = list(leftovers(health))
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        return [f"no answers at {http.base_url.join('health')} ({error})"]
    counters = await scrape(http)
    return found + [f"{counters[name]:g} {name}" for name in _GAUGES if counters.get(name)]


def tracebacks(logs: Path | None) -> Counts:
    """How many tracebacks there are in each file below a folder; without a folder none."""
    if logs is None:
        return Counter()
    files = [file for file in logs.rglob("*") if file.is_file()]
    counts = {str(file.relative_to(logs)): file.read_bytes().count(_TRACEBACK) for file in files}
    return +Counter(counts)
