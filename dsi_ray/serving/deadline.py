"""An end to every request, whatever it waits for."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from dsi_ray.serving.errors import ApiError

T = TypeVar("T")


async def within(seconds: float, stream: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """Yields what ``stream`` yields and closes it.

    Raises:
        ApiError: It took longer in all (504). ``stream`` is closed all the same.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    async with aclosing(stream):
        while True:
            try:
                # Around each item: whoever reads a generator may do so from several tasks.
                async with asyncio.timeout_at(deadline) as timeout:
                    item = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if not timeout.expired():
                    raise
                raise ApiError(
                    504,
                    f"The request took longer than the {seconds:g} seconds that it may take.",
                    code="timeout",
                ) from None
            yield item
