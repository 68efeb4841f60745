"""An end to every request, whatever it waits for."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Self, TypeVar

from dsi_ray.serving.errors import ApiError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a request has to have ended.

    Attributes:
        seconds: How long it may take.
        at: When that is over, by the clock of the event loop.
    """

    seconds: float
    at: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        """Counts from now."""
        return cls(seconds, asyncio.get_running_loop().time() + seconds)


async def within(deadline: Deadline, stream: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """Yields what ``stream`` yields and closes it.

    Raises:
        ApiError: It took too long in all (504). ``stream`` is closed all the same.
    """
    async with aclosing(stream):
        while True:
            try:
                # Around each item: whoever reads a generator may do so from several tasks.
                async with asyncio.timeout_at(deadline.at) as timeout:
                    item = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if not timeout.expired():
                    raise
                raise ApiError(
                    504,
                    f"The request took longer than the {deadline.seconds:g} seconds that it may "
                    "take.",
                    code="timeout",
                ) from None
            yield item
