"""What a message costs, measured between two actors in service."""

import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

_PINGS = 2000


@dataclass(frozen=True, slots=True)
class MessageCosts:
    """Of a message there and its answer.

    Attributes:
        transport: What they travel on.
        round_trip_ms: Median.
        slow_ms: 99 of 100 take less.
        processor_ms: Of both processes together, in the mean.
    """

    transport: str
    round_trip_ms: float
    slow_ms: float
    processor_ms: float


async def measure_costs(
    transport: str,
    ping: Callable[[], Awaitable[None]],
    status: Callable[[], Awaitable[dict[str, Any]]],
) -> MessageCosts:
    """Sends many messages, one after another.

    Args:
        transport: For the result.
        ping: Sends one and waits for the answer.
        status: Of the other process, with the processor time that it has taken.
    """
    before, worked = (await status())["processor_s"], time.process_time()
    trips = []
    for _ in range(_PINGS):
        started = time.perf_counter()
        await ping()
        trips.append(time.perf_counter() - started)
    worked = time.process_time() - worked + (await status())["processor_s"] - before
    slow = statistics.quantiles(trips, n=100)[-1]
    return MessageCosts(
        transport, statistics.median(trips) * 1e3, slow * 1e3, worked * 1e3 / _PINGS
    )
