"""How much is let in at once, who waits, and what those are told who may not."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from dsi_ray.serving.admission.fair_queue import Limits
from dsi_ray.serving.admission.gate import Gate
from dsi_ray.serving.errors import ApiError
from dsi_ray.serving.metrics import ServiceMetrics
from dsi_ray.serving.middleware.deadline import Deadline

from .asgi import until

SOON = 60.0


class Visit:
    """A task that holds room until it is told to go."""

    def __init__(
        self, gate: Gate, generations: int = 1, seconds: float = SOON, client: str = "a"
    ) -> None:
        self.entered, self._go = asyncio.Event(), asyncio.Event()
        self.task = asyncio.create_task(self._stay(gate, generations, seconds, client))

    async def _stay(self, gate: Gate, generations: int, seconds: float, client: str) -> None:
        async with gate.hold(client, generations, generations, Deadline.after(seconds)):
            self.entered.set()
            await self._go.wait()

    async def end(self) -> None:
        """Goes."""
        self._go.set()
        await self.task

    async def cancel(self) -> None:
        """Is cancelled."""
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


Scenario = Callable[[Gate], Coroutine[Any, Any, None]]


def run(limits: Limits, scenario: Scenario) -> ServiceMetrics:
    """Runs a scenario; afterwards nobody may be left."""
    metrics = ServiceMetrics(ingress=0)
    gate = Gate(limits, metrics)
    asyncio.run(scenario(gate))
    load = gate.load
    assert (load.generations, load.tokens, load.queued_requests) == (0, 0, 0)
    return metrics


async def refusal(gate: Gate, **visit: Any) -> ApiError:
    """How a visit is turned away."""
    with pytest.raises(ApiError) as caught:
        await Visit(gate, **visit).task
    return caught.value


async def waits(gate: Gate, requests: int) -> None:
    """Lets tasks run until so many wait."""
    await until(lambda: gate.load.queued_requests == requests)


def test_room_is_given_back_however_it_ends() -> None:
    async def scenario(gate: Gate) -> None:
        first, second = Visit(gate, 2), Visit(gate, 1)
        await first.entered.wait()
        await second.entered.wait()
        assert gate.load.generations == 3
        await first.cancel()
        await second.end()
        with pytest.raises(KeyError):
            async with gate.hold("a", 3, 3, Deadline.after(SOON)):
                raise KeyError

    run(Limits(3, 0), scenario)


def test_who_waits_gets_in_when_there_is_room() -> None:
    async def scenario(gate: Gate) -> None:
        first = Visit(gate)
        await first.entered.wait()
        second = Visit(gate)
        await waits(gate, 1)
        assert not second.entered.is_set()
        await first.end()
        await second.entered.wait()
        await second.end()

    text = run(Limits(1, 1), scenario).text().decode()
    assert 'dsi_ray_queue_wait_seconds_count{ingress="0"} 2.0' in text
    assert 'dsi_ray_queued_requests{ingress="0"} 0.0' in text


def test_who_goes_away_while_waiting_leaves_the_queue_at_once() -> None:
    async def scenario(gate: Gate) -> None:
        first = Visit(gate)
        await first.entered.wait()
        second, third = Visit(gate), Visit(gate)
        await waits(gate, 2)
        await second.cancel()
        assert gate.load.queued_requests == 1
        await first.end()
        await third.entered.wait()
        await third.end()

    run(Limits(1, 2), scenario)


def test_let_in_and_cancelled_at_once_hands_the_room_on() -> None:
    async def scenario(gate: Gate) -> None:
        first = Visit(gate)
        await first.entered.wait()
        second, third = Visit(gate), Visit(gate)
        await waits(gate, 2)
        first.task.cancel()
        second.task.cancel()
        await asyncio.gather(first.task, second.task, return_exceptions=True)
        await third.entered.wait()
        await third.end()

    run(Limits(1, 2), scenario)


def test_a_full_queue_is_503() -> None:
    async def scenario(gate: Gate) -> None:
        first = Visit(gate)
        await first.entered.wait()
        gate.check_not_full()
        second = Visit(gate)
        await waits(gate, 1)
        error = await refusal(gate, client="b")
        assert (error.status, error.code) == (503, "overloaded")
        assert int(error.response().headers["retry-after"]) >= 1
        with pytest.raises(ApiError):
            gate.check_not_full()
        await first.end()
        gate.check_not_full()
        await second.end()

    assert (
        'refused_requests_total{ingress="0",reason="queue_full"} 2.0'
        in run(Limits(1, 1), scenario).text().decode()
    )


def test_waiting_too_long_is_503_and_not_504() -> None:
    async def scenario(gate: Gate) -> None:
        first = Visit(gate)
        await first.entered.wait()
        error = await refusal(gate, seconds=0)
        assert (error.status, error.code) == (503, "overloaded")
        assert int(error.response().headers["retry-after"]) >= 1
        await first.end()

    assert (
        'refused_requests_total{ingress="0",reason="expired"} 1.0'
        in run(Limits(1, 1), scenario).text().decode()
    )


def test_who_need_not_wait_gets_in_whatever_the_deadline() -> None:
    async def scenario(gate: Gate) -> None:
        visit = Visit(gate, seconds=0)
        await visit.entered.wait()
        await visit.end()

    run(Limits(1, 1), scenario)


def test_too_much_of_one_client_is_429() -> None:
    async def scenario(gate: Gate) -> None:
        first, second = Visit(gate, 2), Visit(gate, 1)
        await first.entered.wait()
        await waits(gate, 1)
        error = await refusal(gate)
        assert (error.status, error.code) == (429, "rate_limit_exceeded")
        assert error.envelope.error.type == "requests"
        assert int(error.response().headers["retry-after"]) >= 1
        other = Visit(gate, client="b")
        await waits(gate, 2)
        for visit in (first, second, other):
            await visit.end()

    assert (
        'refused_requests_total{ingress="0",reason="client_limit"} 1.0'
        in run(Limits(2, 9, per_client=3), scenario).text().decode()
    )


def test_more_than_a_client_may_ever_have_is_400() -> None:
    async def scenario(gate: Gate) -> None:
        error = await refusal(gate, generations=4)
        assert error.status == 400 and not error.headers

    run(Limits(10, 0, per_client=3), scenario)


def test_what_never_fits_gets_in_alone() -> None:
    async def scenario(gate: Gate) -> None:
        large = Visit(gate, 10)
        await large.entered.wait()
        small = Visit(gate)
        await waits(gate, 1)
        await large.end()
        await small.end()

    run(Limits(3, 1, tokens=5), scenario)
