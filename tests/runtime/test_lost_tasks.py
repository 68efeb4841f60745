"""A server that dies: its tasks are counted as lost, and the trace shows when it ended."""

import asyncio

import pytest

from dsi_ray.core.messages import EndReason, Role, ServerId
from dsi_ray.runtime.metrics import catalogue as names
from dsi_ray.runtime.metrics.snapshot import Snapshot
from dsi_ray.runtime.trace.spans import SpanOutcome

from .lonely import Client, Mortals, generation, lonely_coordinator, until_well

TOKENS = 60


@pytest.mark.parametrize("role", list(Role))
def test_the_tasks_of_a_dead_server_are_lost(monkeypatch: pytest.MonkeyPatch, role: Role) -> None:
    victim = ServerId(role, 0)

    async def scenario() -> None:
        servers = Mortals(monkeypatch)
        group = await lonely_coordinator()
        expected = (await group.complete(generation(TOKENS))).tokens
        client = Client(group)
        request = generation(TOKENS)
        await client.submit("ticket", request)
        await client.chunk("ticket", 0)
        servers[victim].die()
        assert await client.tokens("ticket") == expected
        status = await until_well(group)
        metrics: Snapshot = status["metrics"]
        values = {(name, *labels): value for name, labels, value in metrics.samples}
        assert values[names.TASK_ENDS, role, EndReason.LOST] >= 1
        assert values[names.SERVER_LOSSES, str(victim)] == 1
        (trace,) = await group.trace(request.id, 0.0)
        ends = [span.end for span in trace.spans if span.outcome is SpanOutcome.FAILED]
        assert ends and max(ends) < trace.seconds

    asyncio.run(scenario())
