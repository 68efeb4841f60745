"""A whole load test: readiness, then for each point of the sweep warm-up, load and figures."""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import islice

import httpx
import numpy as np

from loadtest.client import Client
from loadtest.clock import Clock
from loadtest.drive import Send, drive_closed, drive_open
from loadtest.environment import environment
from loadtest.errors import LoadTestError
from loadtest.load import Closed, Load
from loadtest.metrics import figures
from loadtest.record import Record
from loadtest.request import Request, requests
from loadtest.scenario import Scenario
from loadtest.schedule import arrivals
from loadtest.server import scrape, server_figures, version, wait_until_ready
from loadtest.summary import Point, Summary, Target

Watch = Callable[[Record], None]
Begin = Callable[[str, int | None], None]


async def run(
    name: str,
    scenario: Scenario,
    http: httpx.AsyncClient,
    model: str | None,
    ready_timeout_s: float,
    begin: Begin,
    watch: Watch,
) -> Summary:
    """Runs every point of a scenario.

    Args:
        name: Of the run.
        scenario: What to do.
        http: The server.
        model: What to ask for; None for the server's first.
        ready_timeout_s: How long to wait for the server.
        begin: Told the name of each point and how many requests it has, if that is known.
        watch: Told each measured request when it has ended.

    Raises:
        LoadTestError: The server is not ready, or the warm-up fails.
    """
    served = await wait_until_ready(http, ready_timeout_s)
    target = Target(
        url=str(http.base_url).rstrip("/"), model=model or served, version=await version(http)
    )
    about = environment()
    points = []
    for label, point in scenario.points().items():
        points.append(await _measure(label, point, target.model, http, begin, watch))
    return Summary(name=name, scenario=scenario, target=target, environment=about, points=points)


async def _measure(
    label: str,
    scenario: Scenario,
    model: str,
    http: httpx.AsyncClient,
    begin: Begin,
    watch: Watch,
) -> Point:
    client = Client(http, scenario.timeout_s)
    # The same for every point of a sweep.
    arrive_rng, ask_rng = np.random.default_rng(scenario.seed).spawn(2)
    asked = requests(scenario, model, ask_rng)
    await _warm_up(client, islice(asked, scenario.warm_up))
    count, drive = _plan(scenario.load, asked, arrive_rng)
    records: list[Record] = []

    async def send(request: Request, due: float) -> None:
        record = await client.send(request, due, clock, label)
        records.append(record)
        watch(record)

    begin(label, count)
    before = await scrape(http)
    clock = Clock()
    await drive(clock, send)
    after = await scrape(http)
    elapsed = clock.now()
    if not records:
        raise LoadTestError(f"{label}: no request was due; make the load longer")
    return Point(
        name=label,
        figures=figures(records, scenario.slo),
        server=server_figures(before, after, elapsed),
    )


def _plan(
    load: Load, asked: Iterator[Request], rng: np.random.Generator
) -> tuple[int | None, Callable[[Clock, Send], Awaitable[None]]]:
    """Returns the number of requests, where it is known, and what sends them."""
    if isinstance(load, Closed):
        return load.requests, partial(drive_closed, load, asked)
    times = arrivals(load, rng)
    return len(times), partial(drive_open, times, asked, load.max_in_flight)


async def _warm_up(client: Client, asked: Iterator[Request]) -> None:
    clock = Clock()
    for request in asked:
        record = await client.send(request, clock.now(), clock, "warm-up")
        if record.error is not None:
            raise LoadTestError(f"the warm-up failed: {record.error}: {record.detail}")
