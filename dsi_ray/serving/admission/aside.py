"""One thread for tokenizers, at which clients take turns."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from dsi_ray.serving.admission.fair_queue import (
    FairQueue,
    Limits,
    QueueRefusal,
    RefusalReason,
    Ticket,
)
from dsi_ray.serving.client import client
from dsi_ray.serving.errors import ApiError
from dsi_ray.serving.metrics import ServiceMetrics

P = ParamSpec("P")
T = TypeVar("T")

_RETRY_AFTER_S = 1
"""A text takes milliseconds, the longest that the context holds maybe a second."""


class Aside:
    """Runs what may take long for a long text off the event loop.

    One thread is enough to keep the loop free, and no tokenizer has two users at once. A client
    delays each of the others by one text, however many it sends.

    Args:
        waiting: Most texts that wait.
        per_client: Most texts of one client; None is no limit.
        metrics: Count what is turned away.
    """

    def __init__(self, waiting: int, per_client: int | None, metrics: ServiceMetrics) -> None:
        self._queue = FairQueue(Limits(1, waiting, per_client))
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(1, "tokenizer")

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls ``call`` when it is its turn.

        Raises:
            ApiError: Too much waits (503), or the client has too much here (429).
        """
        entry = asyncio.Event()
        ticket = Ticket(client.get(), 1, 0, entry.set)
        try:
            self._queue.arrive(ticket)
        except QueueRefusal as refused:
            raise self._refusal(refused.reason) from None
        work: Future[T] | None = None
        try:
            await entry.wait()
            work = self._thread.submit(call, *args, **kwargs)
            return await asyncio.wrap_future(work)
        finally:
            self._leave(ticket, work)

    def _leave(self, ticket: Ticket, work: "Future[T] | None") -> None:
        """Ends a turn when its work is over: a thread goes on even if nobody waits for it."""
        if work is None or work.done():
            self._queue.leave(ticket)
            return
        leave = asyncio.get_running_loop().call_soon_threadsafe
        work.add_done_callback(lambda _: leave(self._queue.leave, ticket))

    def _refusal(self, reason: RefusalReason) -> ApiError:
        self._metrics.refused_requests.labels(reason).inc()
        status, code, message = 503, "overloaded", "The server has too many texts to tokenize."
        if reason is RefusalReason.CLIENT_LIMIT:
            status, code = 429, "rate_limit_exceeded"
            message = "Rate limit reached: too many of this client's texts wait to be tokenized."
        return ApiError(
            status,
            f"{message} Try again in {_RETRY_AFTER_S} s.",
            code=code,
            headers={"retry-after": str(_RETRY_AFTER_S)},
        )
