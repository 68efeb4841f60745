"""Several streams of one request, as one."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

T = TypeVar("T")


async def merge(streams: Sequence[AsyncGenerator[T]]) -> AsyncGenerator[tuple[int, T]]:
    """Yields what the streams yield, as it comes, each item with the index of its stream.

    However it ends, all streams are closed.
    """
    if len(streams) == 1:
        async with aclosing(streams[0]) as stream:
            async for item in stream:
                yield 0, item
        return
    queue: asyncio.Queue[tuple[int, T] | None] = asyncio.Queue()
    tasks = [
        asyncio.create_task(_pump(index, stream, queue)) for index, stream in enumerate(streams)
    ]
    try:
        for _ in tasks:
            while (entry := await queue.get()) is not None:
                yield entry
            for task in tasks:
                if task.done():
                    task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(
    index: int, stream: AsyncGenerator[T], queue: asyncio.Queue[tuple[int, T] | None]
) -> None:
    try:
        async with aclosing(stream):
            async for item in stream:
                queue.put_nowait((index, item))
    finally:
        queue.put_nowait(None)
