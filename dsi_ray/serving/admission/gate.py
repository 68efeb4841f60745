"""A bound on what one replica generates at once: beyond it requests wait, or are turned away."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager

from dsi_ray.serving.admission.fair_queue import (
    FairQueue,
    Limits,
    QueueRefusal,
    RefusalReason,
    Ticket,
)
from dsi_ray.serving.admission.service_rate import ServiceRate
from dsi_ray.serving.errors import ApiError
from dsi_ray.serving.metrics import ServiceMetrics
from dsi_ray.serving.middleware.deadline import Deadline
from dsi_ray.serving.schema.server import Load


class Gate:
    """A fair queue for an event loop, whose refusals are answers.

    Attributes:
        queue: Who is inside and who waits.
    """

    def __init__(self, limits: Limits, metrics: ServiceMetrics) -> None:
        self.queue = FairQueue(limits)
        self._pace = ServiceRate()
        self._metrics = metrics
        metrics.queued_requests.set_function(lambda: self.queue.waiting)

    @property
    def load(self) -> Load:
        """How full it is."""
        queue, limits = self.queue, self.queue.limits
        return Load(
            generations=queue.generations,
            max_generations=limits.generations,
            tokens=queue.tokens,
            max_tokens=None if limits.tokens == sys.maxsize else limits.tokens,
            queued_requests=queue.waiting,
            max_queued_requests=limits.queued,
            clients=queue.clients,
        )

    def check_not_full(self) -> None:
        """Saves the work of preparing a request that would be turned away.

        Raises:
            ApiError: It would (503).
        """
        if self.queue.is_full:
            raise self._refusal(RefusalReason.QUEUE_FULL)

    @asynccontextmanager
    async def hold(
        self, client: Hashable, generations: int, tokens: int, deadline: Deadline
    ) -> AsyncGenerator[None]:
        """Waits for room and keeps it for the length of a ``with`` block.

        Args:
            client: Who asks.
            generations: How many: each choice of each prompt is one.
            tokens: What they are likely to hold together: prompts and outputs.
            deadline: When waiting makes no sense any more.

        Raises:
            ApiError: The queue is full, or the deadline passed in it (503); the client has too
                much here (429), or asks for more at once than it may ever have (400).
        """
        limit = self.queue.limits.per_client
        if limit is not None and generations > limit:
            raise ApiError(
                400,
                f"The request asks for {generations} generations, and a client may have {limit} "
                "at once: send fewer prompts, or lower n.",
            )
        entry = asyncio.Event()
        ticket = Ticket(client, generations, tokens, entry.set)
        clock = asyncio.get_running_loop().time
        arrived = clock()
        try:
            self.queue.arrive(ticket)
        except QueueRefusal as refused:
            raise self._refusal(refused.reason, client) from None
        try:
            await self._wait(entry, deadline)
            entered = clock()
            self._metrics.queue_seconds.observe(entered - arrived)
            try:
                yield
            finally:
                self._pace.left(clock() - entered)
        finally:
            self.queue.leave(ticket)

    async def _wait(self, entry: asyncio.Event, deadline: Deadline) -> None:
        try:
            async with asyncio.timeout_at(deadline.at):
                await entry.wait()
        except TimeoutError:
            raise self._refusal(RefusalReason.EXPIRED) from None

    def _refusal(self, reason: RefusalReason, client: Hashable = None) -> ApiError:
        self._metrics.refused_requests.labels(reason).inc()
        queue = self.queue
        status, code, awaited = 503, "overloaded", queue.generations
        match reason:
            case RefusalReason.QUEUE_FULL:
                message = (
                    f"The server is busy with {queue.generations} generations, "
                    f"and {queue.waiting} requests wait."
                )
            case RefusalReason.EXPIRED:
                message = "The server was too busy to begin with the request in time."
            case RefusalReason.CLIENT_LIMIT:
                status, code, awaited = 429, "rate_limit_exceeded", queue.held(client)
                message = (
                    f"Rate limit reached: {awaited} of this client's generations run or wait, "
                    f"and {queue.limits.per_client} may."
                )
        seconds = self._pace.retry_after_s(queue.generations, queue.waiting_generations, awaited)
        return ApiError(
            status,
            f"{message} Try again in {seconds} s.",
            code=code,
            headers={"retry-after": str(seconds)},
        )
