"""Sends the requests of a load when they are due."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice

from loadtest.clock import Clock
from loadtest.load import Closed
from loadtest.request import Request

Send = Callable[[Request, float], Awaitable[None]]
"""Takes a request and the time at which it was due."""


async def drive_open(
    arrivals: Iterable[float],
    requests: Iterator[Request],
    max_in_flight: int,
    clock: Clock,
    send: Send,
) -> None:
    """Sends a request at each of ``arrivals`` and waits for the last answer.

    Where ``max_in_flight`` are unanswered the next ones wait in order; their due time stays.
    """
    room = asyncio.Semaphore(max_in_flight)

    async def send_when_possible(request: Request, due: float) -> None:
        async with room:
            await send(request, due)

    async with asyncio.TaskGroup() as tasks:
        for due, request in zip(arrivals, requests, strict=False):
            await clock.until(due)
            tasks.create_task(send_when_possible(request, due))


async def drive_closed(load: Closed, requests: Iterator[Request], clock: Clock, send: Send) -> None:
    """Lets each client send a request, wait for its answer, and send the next."""
    left = islice(requests, load.requests)

    async def client(joins: float) -> None:
        await clock.until(joins)
        while load.duration_s is None or clock.now() < load.duration_s:
            request = next(left, None)
            if request is None:
                return
            await send(request, clock.now())

    async with asyncio.TaskGroup() as tasks:
        for index in range(load.concurrency):
            tasks.create_task(client(index * load.ramp_s / load.concurrency))
